/** Elements of the page. Text from data becomes text nodes, never markup. */

/**
 * Return a new element.
 * @param {string} name of the element
 * @param {Object<string, string|number|boolean|Function>} attributes with `on...`: listeners;
 *   `false` leaves an attribute out
 * @param {...(Node|string|null)} children
 * @returns {HTMLElement}
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value !== false) element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Return a pane with a heading, a landmark of the page.
 * @param {string} title
 * @param {string} className
 * @param {...(Node|string|null)} children
 */
export function makePane(title, className, ...children) {
  const heading = make("h2", {}, title);
  return make("section", { class: `pane ${className}`, "aria-label": title }, heading, ...children);
}

/**
 * Return a small filled square, the key of a colour in a legend.
 * @param {string} colour
 */
export function makeSwatch(colour) {
  const swatch = make("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.backgroundColor = colour;
  return swatch;
}

/**
 * Return a button with a listener.
 * @param {string} text
 * @param {Function} act
 * @param {Object<string, string>} attributes
 */
export function makeButton(text, act, attributes = {}) {
  return make("button", { type: "button", onclick: act, ...attributes }, text);
}

/**
 * Return a labelled choice; `act` receives the chosen key.
 * @param {string} label
 * @param {Array<[string, string]>} choices key and text of each
 * @param {string} chosen
 * @param {(key: string) => void} act
 */
export function makeChoice(label, choices, chosen, act) {
  const select = make("select", { onchange: () => act(select.value) });
  for (const [key, text] of choices) {
    select.append(make("option", { value: key, selected: key === chosen }, text));
  }
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

/**
 * Prepare a canvas for drawing in CSS pixels, sharp on the screen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width CSS pixels
 * @param {number} height CSS pixels
 * @returns {CanvasRenderingContext2D} cleared
 */
export function sharpContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(wide / width, 0, 0, high / height, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Return the colour of a CSS custom property, such as `--ink`.
 * @param {string} name
 */
export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
