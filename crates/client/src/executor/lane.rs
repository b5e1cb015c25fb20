//! The effects on one object, in the order in which they are carried out.

use std::collections::VecDeque;

use framework::Uid;

use super::job::{Job, Work};

/// The first job is at work or waits for its turn; the others wait for it.
#[derive(Debug, Default)]
pub(super) struct Lane {
    jobs: VecDeque<Job>,
    /// Whether a request of the first job is out.
    is_sent: bool,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The first job, unless a request of it is out.
    pub(super) fn waiting(&self) -> Option<&Job> {
        self.jobs.front().filter(|_| !self.is_sent)
    }

    /// Adds a job. A status patch joins the one before it; a bind takes the place of those of its
    /// pod, because the server sets the condition and ends the nomination by itself.
    pub(super) fn push(&mut self, job: Job) {
        if let Work::Bind(binding) | Work::ExtenderBind { binding, .. } = &job.work {
            self.drop_status_patches(&binding.uid);
        }
        if let Some(job) = self.join(job) {
            self.jobs.push_back(job);
        }
    }

    fn drop_status_patches(&mut self, of: &Uid) {
        let out = usize::from(self.is_sent);
        let mut place = 0;
        self.jobs.retain(|job| {
            let is_out = place < out;
            place += 1;
            is_out || !matches!(&job.work, Work::PatchPodStatus(update) if update.uid == *of)
        });
    }

    /// Gives the job back if it cannot join the last one.
    fn join(&mut self, job: Job) -> Option<Job> {
        let is_out = self.is_sent && self.jobs.len() == 1;
        match self.jobs.back_mut().filter(|_| !is_out) {
            Some(last) => last.join(job),
            None => Some(job),
        }
    }

    /// The first job goes out.
    pub(super) fn send(&mut self) -> Option<&Job> {
        self.is_sent = true;
        self.jobs.front()
    }

    /// The first job has come back; it is first still.
    pub(super) fn came_back(&mut self) -> Option<&mut Job> {
        self.is_sent = false;
        self.jobs.front_mut()
    }

    /// Takes the first job out.
    pub(super) fn finish(&mut self) -> Option<Job> {
        self.jobs.pop_front()
    }

    /// Drops what is not out.
    pub(super) fn drop_waiting(&mut self) {
        self.jobs.truncate(usize::from(self.is_sent));
    }
}
