//! What is checked of every placement, counted apart from the scheduler.

use std::collections::{HashMap, HashSet};

use crate::cluster::{self, Size, ZONES};
use crate::template::Template;

/// What the placed pods use.
#[derive(Debug)]
pub(crate) struct Rules {
    free: Vec<Size>,
    cordoned: HashSet<u32>,
    /// Ports in use, by node.
    ports: HashSet<(u32, u32)>,
    /// Nodes of pods that want to be alone, by template.
    alone: HashSet<(u32, usize)>,
    /// Pods per zone, by template.
    zones: HashMap<usize, [u32; ZONES as usize]>,
    broken: u64,
}

impl Rules {
    /// Knows nodes without pods.
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            free: (0..nodes).map(cluster::size).collect(),
            cordoned: HashSet::new(),
            ports: HashSet::new(),
            alone: HashSet::new(),
            zones: HashMap::new(),
            broken: 0,
        }
    }

    /// Returns how many placements have broken a rule.
    pub(crate) const fn broken(&self) -> u64 {
        self.broken
    }

    /// Returns the milli-CPU that is free on a node.
    pub(crate) fn free_cpu(&self, node: u32) -> i64 {
        self.free[node as usize].cpu
    }

    /// Notes that a node is cordoned, or no longer is.
    pub(crate) fn cordon(&mut self, node: u32, is_cordoned: bool) {
        match is_cordoned {
            true => self.cordoned.insert(node),
            false => self.cordoned.remove(&node),
        };
    }

    /// Handles a placement by the scheduler, and checks it.
    pub(crate) fn bind(&mut self, number: usize, template: &Template, node: u32) {
        let is_right = self.allow(number, template, node);
        self.broken += u64::from(!is_right);
        self.place(number, template, node);
    }

    /// Handles a pod on its node.
    pub(crate) fn place(&mut self, number: usize, template: &Template, node: u32) {
        self.add(template, node, -1);
        self.ports.extend(template.port.map(|port| (node, port)));
        if template.is_alone {
            self.alone.insert((node, number));
        }
        if template.max_skew.is_some() {
            self.zones.entry(number).or_default()[cluster::zone(node) as usize] += 1;
        }
    }

    /// Notes that a pod is gone.
    pub(crate) fn remove(&mut self, number: usize, template: &Template, node: u32) {
        self.add(template, node, 1);
        if let Some(port) = template.port {
            self.ports.remove(&(node, port));
        }
        self.alone.remove(&(node, number));
        if let Some(zones) = self.zones.get_mut(&number) {
            zones[cluster::zone(node) as usize] -= 1;
        }
    }

    fn add(&mut self, template: &Template, node: u32, sign: i64) {
        let free = &mut self.free[node as usize];
        free.cpu += sign * template.cpu;
        free.memory += sign * template.memory;
        free.pods += sign;
    }

    fn allow(&self, number: usize, template: &Template, node: u32) -> bool {
        let free = self.free[node as usize];
        let pool = cluster::pool(node);
        free.cpu >= template.cpu
            && free.memory >= template.memory
            && free.pods >= 1
            && !self.cordoned.contains(&node)
            && template.pool.is_none_or(|wanted| wanted == pool)
            && (pool != "gpu" || template.tolerates)
            && template.port.is_none_or(|port| !self.ports.contains(&(node, port)))
            && !self.alone.contains(&(node, number))
            && template.max_skew.is_none_or(|skew| self.skew_after(number, node) <= skew)
    }

    fn skew_after(&self, number: usize, node: u32) -> u32 {
        let mut zones = self.zones.get(&number).copied().unwrap_or_default();
        // A cluster may be too small to have all zones.
        let present = ZONES.min(u32::try_from(self.free.len().div_ceil(5)).unwrap_or(ZONES));
        let least = zones[..present as usize].iter().min().copied().unwrap_or_default();
        let own = &mut zones[cluster::zone(node) as usize];
        *own += 1;
        own.saturating_sub(least)
    }
}
