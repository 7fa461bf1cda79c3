"""Files of an invented Slurm site: partitions, GPUs, accounts and job records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SLURM_CONF = r"""
ClusterName=aurora
SlurmctldHost=head
# resources
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory,CR_ONE_TASK_PER_CORE
GresTypes=gpu
Licenses=matlab:10,ansys@flex:4
DefMemPerCPU=2000
# priorities
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityWeightAge=1000 PriorityWeightFairshare=100000
PriorityWeightTRES=CPU=1000,Mem=2048G,GRES/gpu=5000
PriorityFlags=ACCRUE_ALWAYS,FAIR_TREE
SchedulerParameters=bf_window=2880,bf_continue,\
bf_interval=60,bf_licenses,sched_min_interval=2000000
PreemptType=preempt/qos
PreemptMode=REQUEUE
AccountingStorageEnforce=limits,qos
EnforcePartLimits=ANY
TopologyPlugin=topology/tree
Include nodes.conf
PartitionName=DEFAULT State=UP MaxTime=2-00:00:00
PartitionName=cpu Nodes=c[01-04] Default=YES AllowAccounts=physics,biology
PartitionName=gpu Nodes=accelerated MaxNodes=2 DefaultTime=60 OverSubscribe=EXCLUSIVE \
  TRESBillingWeights="CPU=1.0,Mem=0.5G,GRES/gpu=8" PriorityTier=10 MaxTime=UNLIMITED CpuBind=none
"""
NODES_CONF = """
NodeName=DEFAULT RealMemory=64000 State=UNKNOWN
NodeName=c[01-03] CPUs=16 Sockets=2 CoresPerSocket=8 Feature=ib,skylake Weight=10
NodeName=c04 CPUs=16 Sockets=2 CoresPerSocket=8 State=DRAIN Reason=fan # to be repaired
NodeName=g[1-2] Sockets=1 CoresPerSocket=16 ThreadsPerCore=2 Gres=gpu:4 Feature=ib,dgx Port=6818
NodeName=spare[1-8] CPUs=4 State=FUTURE
NodeSet=accelerated Feature=dgx
"""
GRES_CONF = """
NodeName=g1 Name=gpu Type=a100 File=/dev/nvidia[0-3]
NodeName=g2 Name=gpu Type=h100 Count=4
"""
TOPOLOGY_CONF = """
SwitchName=leaf1 Nodes=c[01-04]
SwitchName=leaf2 Nodes=g[1-2]
SwitchName=top Switches=leaf[1-2]
"""
DUMP = """# To edit this file start with a cluster line for the new cluster
Cluster - 'aurora':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics dept':Organization='uni':Fairshare=60:GrpTRES=cpu=64,mem=1T
Account - 'biology':Description='biology':Organization='uni':Fairshare=30:QOS='normal,long'
Parent - 'physics'
Account - 'theory':Description='theory':Organization='uni':Fairshare=2
User - 'ada':DefaultAccount='physics':Fairshare=5:MaxJobs=20:MaxWallDurationPerJob=1440
Parent - 'theory'
User - 'ada':DefaultAccount='physics':Fairshare=1
User - 'bob':DefaultAccount='theory':Fairshare=parent:Partition='gpu':MaxSubmitJobs=5
"""
QOS = """Name|Priority|GraceTime|Preempt|Flags|UsageFactor|MaxTRESPU|MaxJobsPU|MaxWall|MinTRES
normal|0|00:00:00||||cpu=64|||
long|10|00:02:00|normal|DenyOnLimit,Relative|2.000000||4|14-00:00:00|cpu=1
"""

COLUMNS = [
    *("JobID", "JobIDRaw", "JobName", "User", "Group", "Account", "Partition", "QOS", "Submit"),
    *("Eligible", "Start", "End", "ElapsedRaw", "State", "TimelimitRaw", "ReqTRES", "AllocTRES"),
    *("ReqMem", "NNodes", "NodeList", "Constraints", "Suspended", "SubmitLine"),
]
COMPLETED: Mapping[str, str] = {
    "JobID": "101",
    "JobName": "solve",
    "User": "ada",
    "Group": "phys",
    "Account": "physics",
    "Partition": "cpu",
    "QOS": "normal",
    "Submit": "2026-03-02T08:00:00",
    "Eligible": "2026-03-02T08:00:00",
    "Start": "2026-03-02T08:05:00",
    "End": "2026-03-02T09:05:00",
    "ElapsedRaw": "3600",
    "State": "COMPLETED",
    "TimelimitRaw": "120",
    "ReqTRES": "billing=8,cpu=8,mem=16000M,node=1",
    "AllocTRES": "billing=8,cpu=8,mem=16000M,node=1",
    "ReqMem": "16000M",
    "NNodes": "1",
    "NodeList": "c01",
}
PENDING: Mapping[str, str] = {
    "Start": "Unknown",
    "End": "Unknown",
    "ElapsedRaw": "0",
    "NodeList": "None assigned",
    "NNodes": "0",
    "AllocTRES": "",
    "State": "PENDING",
}


def record(**values: str) -> dict[str, str]:
    """Return a record of a completed job with other values."""
    own = {**COMPLETED, **values}
    own.setdefault("JobIDRaw", own["JobID"])
    return own


def sacct_text(*records: Mapping[str, str], columns: list[str] = COLUMNS) -> str:
    """Return records as `sacct -P` prints them."""
    rows = ["|".join(columns)]
    rows += ["|".join(each.get(name, "") for name in columns) for each in records]
    return "\n".join(rows) + "\n"


def write_site(folder: Path) -> Path:
    """Write the configuration of the site to a folder, and return its slurm.conf."""
    for name, text in (
        ("slurm.conf", SLURM_CONF),
        ("nodes.conf", NODES_CONF),
        ("gres.conf", GRES_CONF),
        ("topology.conf", TOPOLOGY_CONF),
        ("dump.cfg", DUMP),
        ("qos.psv", QOS),
    ):
        (folder / name).write_text(text)
    return folder / "slurm.conf"
