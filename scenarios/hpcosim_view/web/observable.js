/** A value whose listeners are told when it changes. */

/**
 * Return an observable value.
 *
 * @template T
 * @param {T} value the first value.
 * @returns {{get: function(): T, set: function(T): void,
 *   subscribe: function(function(T): void): function(): void}} `set` calls the listeners if the
 *   value differs; `subscribe` returns the function that ends the subscription.
 */
export function observable(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
