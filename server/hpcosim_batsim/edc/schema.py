"""The schema of the messages of Batsim 5, version 0.1.0 of 29 October 2024.

The order of the fields of a table, of the values of an enumeration and of the tables of a union
gives their numbers in the binary form. Later versions have further events, whose numbers no
published source shows: `binary` does not know them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

VERSION = "0.1.0"

SCALARS: Mapping[str, str] = {"bool": "?", "byte": "B", "uint": "I", "ulong": "Q", "double": "d"}
"""Code of `struct` of each type of numbers."""

ENUMS: Mapping[str, tuple[str, ...]] = {
    name: tuple(values.split())
    for name, values in {
        "GenerationStrategy": "DefinedAmountsUsedForEachValue DefinedAmountsSpreadUniformly",
        "TraceType": "SMPI FractionalComputation",
        "FinalJobState": "COMPLETED_SUCCESSFULLY COMPLETED_FAILED COMPLETED_WALLTIME_REACHED "
        "COMPLETED_KILLED REJECTED",
        "PlacementStrategy": "SpreadOverHostsFirst FillOneHostCoresFirst",
        "CumulativeFunction": "Sum Minimum Maximum",
        "Metrics": "Power NetworkLoad ComputationLoad NormalizedNetworkLoad "
        "NormalizedComputationLoad",
        "Comparison": "GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual",
        "TimeUnit": "Second Millisecond",
        "Validation": "None MatchJobRequestExactly MatchJobRequestBigEnough",
        "HostState": "SLEEPING IDLE COMPUTING SWITCHING_ON SWITCHING_OFF",
    }.items()
}

UNIONS: Mapping[str, tuple[str, ...]] = {
    name: ("NONE", *tables.split())
    for name, tables in {
        "Profile": "DelayProfile ParallelTaskProfile ParallelTaskHomogeneousProfile "
        "SequentialCompositionProfile ForkJoinCompositionProfile "
        "ParallelTaskMergeCompositionProfile ParallelTaskOnStorageHomogeneousProfile "
        "ParallelTaskDataStagingBetweenStoragesProfile TraceReplayProfile",
        "Placement": "PredefinedExecutorPlacementStrategyWrapper CustomExecutorToHostMapping",
        "KillProgress": "KillProgressAtomicProfile KillProgressSequentialProfile "
        "KillProgressForkJoinProfile",
        "Resources": "HostResources LinkResources",
        "TriggeringPolicy": "TemporalTriggerWrapper",
        "AccumulationStrategy": "NoProbeDataAccumulation ProbeDataAccumulation",
        "ResetMode": "NoReset ProbeAccumulationReset",
        "TemporalAggregation": "NoTemporalAggregation ExponentialMovingAverage "
        "SlidingWindowOperation",
        "ResourcesAggregation": "NoResourcesAggregation Sum ArithmeticMean QuantileFunction",
        "Filtering": "NoFiltering ThresholdFilteringFunction",
        "ProbeData": "AggregatedProbeData VectorialProbeData",
        "PeriodicMode": "Infinite FinitePeriodNumber",
        "TemporalTrigger": "OneShot Periodic",
        "Event": "JobSubmittedEvent JobCompletedEvent RejectJobEvent ExecuteJobEvent "
        "KillJobsEvent JobsKilledEvent RegisterProfileEvent RegisterJobEvent CreateProbeEvent "
        "StopProbeEvent TriggerProbeEvent ResetProbeEvent ProbeDataEmittedEvent "
        "CallMeLaterEvent RequestedCallEvent StopCallMeLaterEvent BatsimHelloEvent EDCHelloEvent "
        "SimulationBeginsEvent SimulationEndsEvent AllStaticJobsHaveBeenSubmittedEvent "
        "AllStaticExternalEventsHaveBeenInjectedEvent FinishRegistrationEvent "
        "ForceSimulationStopEvent",
    }.items()
}

# Fields as NAME:TYPE or NAME:TYPE=DEFAULT; a number with the default `null` is optional. A list has
# the type [TYPE]. A table that is not named has no fields.
_TABLES: Mapping[str, str] = {
    "DelayProfile": "delay:double",
    "ParallelTaskProfile": "computation_vector:[double] communication_matrix:[double]",
    "SequentialCompositionProfile": "repetition_count:uint=1 profile_ids:[string]",
    "ForkJoinCompositionProfile": "profile_ids:[string]",
    "ParallelTaskMergeCompositionProfile": "profile_ids:[string]",
    "ParallelTaskHomogeneousProfile": "computation_amount:double communication_amount:double "
    "generation_strategy:GenerationStrategy",
    "ParallelTaskOnStorageHomogeneousProfile": "storage_name:string bytes_to_read:double "
    "bytes_to_write:double generation_strategy:GenerationStrategy",
    "ParallelTaskDataStagingBetweenStoragesProfile": "bytes_to_transfer:double "
    "emitter_storage_name:string receiver_storage_name:string",
    "TraceReplayProfile": "trace_type:TraceType filename:string",
    "Job": "resource_request:uint walltime:double=null extra_data:string rigid:bool=true "
    "profile_id:string",
    "JobSubmittedEvent": "job_id:string job:Job submission_time:double",
    "JobCompletedEvent": "job_id:string state:FinalJobState return_code:uint",
    "RejectJobEvent": "job_id:string",
    "PredefinedExecutorPlacementStrategyWrapper": "strategy:PlacementStrategy",
    "CustomExecutorToHostMapping": "mapping:[uint]",
    "StorageHost": "storage_name:string host_id:uint",
    "AllocationPlacement": "host_allocation:string executor_placement:Placement",
    "ProfileAllocationPlacement": "profile_id:string host_allocation:string "
    "executor_placement:Placement",
    "ExecuteJobEvent": "job_id:string allocation:AllocationPlacement "
    "profile_allocation_override:[ProfileAllocationPlacement] storage_placement:[StorageHost]",
    "KillJobsEvent": "job_ids:[string]",
    "KillProgressAtomicProfile": "profile_id:string progress:double",
    "KillProgressSequentialProfile": "profile_id:string current_repetition:uint "
    "current_task_index:uint current_task_progress:KillProgressWrapper",
    "KillProgressForkJoinProfile": "profile_id:string tasks_progress:[KillProgressWrapper]",
    "KillProgressWrapper": "kill_progress:KillProgress",
    "JobAndProgress": "job_id:string wrapper:KillProgressWrapper",
    "JobsKilledEvent": "job_ids:[string] progresses:[JobAndProgress]",
    "ProfileAndId": "id:string profile:Profile",
    "RegisterProfileEvent": "profile:ProfileAndId",
    "RegisterJobEvent": "job_id:string job:Job",
    "HostResources": "host_ids:string",
    "LinkResources": "link_ids:[string]",
    "ProbeAccumulationReset": "new_value:double",
    "ProbeDataAccumulation": "reset_mode:ResetMode cumulative_function:CumulativeFunction "
    "temporal_normalization:bool",
    "QuantileFunction": "threshold:double",
    "ThresholdFilteringFunction": "threshold:double operator:Comparison",
    "CreateProbeEvent": "probe_id:string metrics:Metrics resources:Resources "
    "data_accumulation_strategy:AccumulationStrategy "
    "measurement_triggering_policy:TriggeringPolicy "
    "resources_aggregation_function:ResourcesAggregation "
    "temporal_aggregation_function:TemporalAggregation emission_filtering_policy:Filtering",
    "StopProbeEvent": "probe_id:string",
    "ResetProbeEvent": "probe_id:string new_value:double",
    "TriggerProbeEvent": "probe_id:string force_data_emission:bool=true",
    "AggregatedProbeData": "data:double",
    "VectorialProbeData": "data:[double]",
    "ProbeDataEmittedEvent": "probe_id:string resources:Resources metrics:Metrics data:ProbeData "
    "manually_triggered:bool nb_emitted:uint nb_triggered:uint",
    "OneShot": "time:ulong time_unit:TimeUnit",
    "FinitePeriodNumber": "nb_periods:uint",
    "Periodic": "period:ulong offset:ulong time_unit:TimeUnit mode:PeriodicMode",
    "TemporalTriggerWrapper": "temporal_trigger:TemporalTrigger",
    "CallMeLaterEvent": "call_me_later_id:string when:TemporalTrigger",
    "RequestedCallEvent": "call_me_later_id:string last_periodic_call:bool",
    "StopCallMeLaterEvent": "call_me_later_id:string",
    "BatsimHelloEvent": "batprotocol_version:string batsim_version:string batsim_commit:string",
    "RequestedFeatures": "dynamic_registration:bool profile_reuse:bool "
    "acknowledge_dynamic_jobs:bool forward_profiles_on_job_submission:bool "
    "forward_profiles_on_jobs_killed:bool forward_profiles_on_simulation_begins:bool "
    "forward_unknown_external_events:bool",
    "SchedulingConstraints": "compute_sharing:bool storage_sharing:bool=true "
    "job_allocation_validation_strategy:Validation=MatchJobRequestExactly",
    "EDCHelloEvent": "batprotocol_version:string decision_component_name:string "
    "decision_component_version:string decision_component_commit:string "
    "requested_simulation_features:RequestedFeatures scheduling_constraints:SchedulingConstraints",
    "HostProperty": "key:string value:string",
    "Host": "id:uint name:string pstate:uint pstate_count:uint=1 state:HostState "
    "properties:[HostProperty] zone_properties:[HostProperty] core_count:uint=1 "
    "computation_speed:[double]",
    "WorkloadAndFilename": "name:string filename:string",
    "SimulationBeginsEvent": "host_number:uint computation_host_number:uint "
    "computation_hosts:[Host] storage_host_number:uint storage_hosts:[Host] "
    "batsim_arguments:[string] batsim_execution_context_json:string "
    "workloads:[WorkloadAndFilename] profiles:[ProfileAndId]",
    "EventAndTimestamp": "timestamp:double event:Event",
    "Message": "now:double events:[EventAndTimestamp]",
}


class Field(NamedTuple):
    """A field of a table.

    Attributes:
        slot: its number; the type of a union has the slot before.
        type: a number, `string`, an enumeration, a union or a table.
        is_list: it is a list of these.
        default: value of a field that is not there, as in JSON.
    """

    name: str
    slot: int
    type: str
    is_list: bool
    default: object


def _fields(text: str) -> Iterator[Field]:
    slot = 0
    for part in text.split():
        name, _, rest = part.partition(":")
        kind, _, default = rest.partition("=")
        slot += kind in UNIONS
        yield Field(name, slot, kind.strip("[]"), kind[0] == "[", _default(kind, default))
        slot += 1


def _default(kind: str, text: str) -> object:
    if kind in ENUMS:
        return text or ENUMS[kind][0]
    if kind not in SCALARS or text == "null":
        return None
    if kind == "bool":
        return text == "true"
    return float(text or 0) if kind == "double" else int(text or 0)


TABLES: Mapping[str, tuple[Field, ...]] = {
    name: tuple(_fields(text)) for name, text in _TABLES.items()
}
"""Fields of each table, in order."""
