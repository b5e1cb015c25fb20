//! The faults of the simulation.

use super::named;

named! {
    /// A kind of fault. It fires each time it changes the fate of a request, a reply, a watch, a
    /// process or the API server.
    Fault {
        // Requests and replies.
        ConnectionRefused = "connection refused",
        RequestLost = "request lost",
        AnswerLost = "answer lost",
        RequestLate = "request late",
        RequestLateByMinutes = "request late by minutes",
        RequestRefused = "request refused by a proxy",
        AnswerGarbled = "answer replaced by a proxy",
        StorageTimesOut = "store times out",
        // Lists and watches.
        ListFails = "list or watch fails",
        WatchBreaks = "watch breaks",
        WatchStalls = "watch stalls",
        EventsRepeated = "watch starts too early",
        KindLags = "kind lags behind others",
        // The API server.
        ServerDown = "API server down",
        ServerOverloaded = "API server overloaded",
        HistoryCompacted = "history compacted",
        // Processes.
        ProcessKilled = "process killed",
        ProcessTerminated = "process terminated",
        ProcessStopped = "process stopped for a while",
        ProcessCutOff = "process cut off from the API servers",
        KilledWhileBinding = "process killed, stopped or asked to end while it binds",
        BindOfKilledProcess = "late bind of a killed process",
        // Faults that last for hours.
        BindingWebhook = "webhook on pods/binding down",
        StatusWebhook = "webhook on pods/status down",
        WebhookDenies = "webhook denies",
        Quota = "quota of a namespace",
        PermissionWithdrawn = "permission withdrawn",
        WatchForbidden = "list and watch forbidden",
        ExtenderFails = "extender fails",
        ExtenderHangs = "extender hangs",
        DriverIdle = "CSI driver and controllers idle",
        NodeRefusesBinds = "binds to a node fail",
        // Other actors.
        CacheLags = "watch cache of an API server lags",
        StaleList = "list from a stale watch cache",
        StaleWatch = "watch from a stale watch cache",
        VersionTooLarge = "too large resource version",
        ServerRestarts = "API server restarts",
        ServerStarting = "API server starting",
        NoStreamingList = "API server without streaming lists",
        ClockCorrected = "wall clock corrected",
        RoomTaken = "others take the chosen room",
        KubeletRejects = "kubelet rejects a bound pod",
        PodsDeletedInMass = "all pods of a namespace deleted",
        PodsCreatedInMass = "many pods created",
        PreemptorsMeet = "several preemptors at once",
        PodDisturbed = "pod changed, replaced or bound by others while it is worked on",
        NodesLost = "a third of the nodes lost",
        SlicesReplaced = "devices of a node replaced",
        ClaimDeleted = "claim of devices deleted",
        DevicesLate = "devices ready late",
        DevicesBroken = "devices broken after allocation",
        DevicesNeverReady = "devices never ready",
        AllocationLate = "allocation of devices written late",
        EvictionRefused = "eviction forbidden",
        FenceLost = "patch that stops a lost bind without an answer",
        // Groups.
        MemberGone = "pod of a group deleted or ended",
        CountChanged = "minCount of a gang changed",
        GroupDeleted = "PodGroup deleted",
        GroupReplaced = "PodGroup replaced by another of its name",
        // Extenders that bind.
        ExtenderBindLost = "answer of a binding extender lost",
        ExtenderBindLate = "bind by an extender late",
    }
}
