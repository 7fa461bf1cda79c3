"""Settings of slurm.conf without effect on a simulation."""

from __future__ import annotations

WITHOUT_EFFECT = frozenset(
    (
        *("accountingstoragebackuphost", "accountingstorageexternalhost"),
        *("accountingstoragehost", "accountingstorageparameters", "accountingstoragepass"),
        *("accountingstorageport", "accountingstoragetres", "accountingstoragetype"),
        *("accountingstorageuser", "accountingstoreflags", "acctgatherenergytype"),
        *("acctgatherfilesystemtype", "acctgatherinterconnecttype", "acctgathernodefreq"),
        *("acctgatherprofiletype", "allowspecresourcesusage", "authaltparameters"),
        *("authalttypes", "authinfo", "authtype", "backupaddr", "backupcontroller"),
        *("batchstarttimeout", "bcastexclude", "bcastparameters", "burstbuffertype"),
        *("clifilterplugins", "clustername", "commtype", "communicationparameters"),
        *("controladdr", "controlmachine", "corespecplugin", "cpufreqdef", "cpufreqgovernors"),
        *("credtype", "cryptotype", "debugflags", "defaultstoragehost", "defaultstoragetype"),
        *("dependencyparameters", "disablerootjobs", "eiotimeout", "epilog", "epilogmsgtime"),
        *("epilogslurmctld", "extsensorsfreq", "extsensorstype", "federationparameters"),
        *("firstjobid", "getenvtimeout", "grestypes", "groupupdateforce", "groupupdatetime"),
        *("hashplugin", "healthcheckinterval", "healthchecknodestate", "healthcheckprogram"),
        *("inactivelimit", "interactivestepoptions", "jobacctgatherfrequency"),
        *("jobacctgatherparams", "jobacctgathertype", "jobcomphost", "jobcomploc"),
        *("jobcompparams", "jobcomppass", "jobcompport", "jobcomptype", "jobcompuser"),
        *("jobcontainertype", "jobcredentialprivatekey", "jobcredentialpublic"),
        *("jobcredentialpubliccertificate", "jobfileappend", "jobsubmitplugins", "killonbadexit"),
        *("launchparameters", "launchtype", "maildomain", "mailprog", "maxarraysize"),
        *("maxdbdmsgs", "maxjobcount", "maxjobid", "maxstepcount", "maxtaskspernode"),
        *("mcsparameters", "mcsplugin", "messagetimeout", "minjobage", "mpidefault", "mpiparams"),
        *("nodefeaturesplugins", "plugindir", "plugstackconfig", "powerparameters"),
        *("powerplugin", "prepparameters", "prepplugins", "prioritysitefactorparameters"),
        *("prioritysitefactorplugin", "privatedata", "proctracktype", "prolog"),
        *("prologepilogtimeout", "prologflags", "prologslurmctld", "propagateprioprocess"),
        *("propagateresourcelimits", "propagateresourcelimitsexcept", "rebootprogram"),
        *("reconfigflags", "requeueexit", "requeueexithold", "resumefailprogram"),
        *("resvepilog", "resvoverrun", "resvprolog", "returntoservice"),
        *("routeplugin", "sallocdefaultcommand", "sbcastparameters", "sched_logfile"),
        *("schedulertimeslice", "scronparameters", "selecttype", "slurmctldaddr"),
        *("slurmctlddebug", "slurmctldhost", "slurmctldlogfile"),
        *("slurmctldpidfile", "slurmctldplugstack", "slurmctldport", "slurmctldprimaryoffprog"),
        *("slurmctldprimaryonprog", "slurmctldsyslogdebug", "slurmctldtimeout", "slurmddebug"),
        *("slurmdlogfile", "slurmdparameters", "slurmdpidfile", "slurmdport", "slurmdspooldir"),
        *("slurmdsyslogdebug", "slurmdtimeout", "slurmduser", "slurmschedlogfile"),
        *("slurmschedloglevel", "slurmuser", "srunepilog", "srunportrange", "srunprolog"),
        *("statesavelocation", "switchparameters", "switchtype", "taskepilog"),
        *("taskplugin", "taskpluginparam", "taskprolog", "tcptimeout", "tmpfs", "topologyparam"),
        *("trackwckey", "tresweights", "unkillablestepprogram", "unkillablesteptimeout"),
        *("usepam", "vsizefactor", "waittime", "x11parameters"),
    )
)
"""Keys in lower case: paths, logging, accounts of processes, messages between daemons."""

NODE_WITHOUT_EFFECT = frozenset(
    ("bcastaddr", "nodeaddr", "nodehostname", "port", "reason", "state")
)
"""Keys of `NodeName` lines, in lower case. `state` is part of the failures section."""

NODE_MODELLED = frozenset(
    (
        *("boards", "corespeccount", "corespersocket", "cpus", "feature", "features", "gres"),
        *("memspeclimit", "nodename", "procs", "realmemory", "sockets", "socketsperboard"),
        *("threadspercore", "weight"),
    )
)
