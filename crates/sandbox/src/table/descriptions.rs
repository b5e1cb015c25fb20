//! Descriptions of columns, with the texts of the API.

/// `metadata.name`.
pub(super) const NAME: &str = "\
    Name must be unique within a namespace. Is required when creating resources, although some \
    resources may allow a client to request the generation of an appropriate name automatically. \
    Name is primarily intended for creation idempotence and configuration definition. Cannot be \
    updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// `metadata.creationTimestamp`.
pub(crate) const AGE: &str = "\
    CreationTimestamp is a timestamp representing the server time when this object was created. \
    It is not guaranteed to be set in happens-before order across separate operations. Clients \
    may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the \
    system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// `spec.nodeName` of a pod.
pub(super) const POD_NODE: &str = "\
    NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate \
    for scheduling by the scheduler defined in schedulerName. Once this field is set, the \
    kubelet for this node becomes responsible for the lifecycle of this pod. This field should \
    not be used to express a desire for the pod to be scheduled on a specific node. \
    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename";

/// `status.nominatedNodeName` of a pod.
pub(super) const POD_NOMINATED_NODE: &str = "\
    nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot \
    be scheduled right away as preemption victims receive their graceful termination periods. \
    This field does not guarantee that the pod will be scheduled on this node. Scheduler may \
    decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also \
    decide to give the resources on this node to a higher priority pod that is created after \
    preemption. As a result, this field may be different than PodSpec.nodeName when the pod is \
    scheduled.";

/// `spec.readinessGates` of a pod.
pub(super) const POD_READINESS_GATES: &str = "\
    If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when \
    all its containers are ready AND all conditions specified in the readiness gates have status \
    equal to \"True\" More info: \
    https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates";

/// `status.addresses` of a node.
pub(super) const NODE_ADDRESSES: &str = "\
    List of addresses reachable to the node. Queried from cloud provider, if available. More \
    info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is \
    declared as mergeable, but the merge key is not sufficiently unique, which can cause data \
    corruption when it is merged. Callers should instead use a full-replacement patch. See \
    https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change \
    during the lifetime of a Node. However, there are some exceptions where this may not be \
    possible, such as Pods that inherit a Node's address in its own status or consumers of the \
    downward API (status.hostIP).";
