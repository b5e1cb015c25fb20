//! The events that wake a pod.
