//! Tests of the plugin against a small API server.

mod agreement;
mod binding;
mod claims;
mod conditions;
mod details;
mod extended;
mod filtering;
mod groups;
mod hints;
mod histories;
mod post_filter;
mod world;
