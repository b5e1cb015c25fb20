mod cel_text;
mod corpus;
mod memo;
mod naive;
mod random;
mod rules;
mod toy;
mod world;
