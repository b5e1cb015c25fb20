//! Loadmaster: a Kubernetes scheduler that considers every node and can always say why.
