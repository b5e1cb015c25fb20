mod cel_text;
mod corpus;
mod counting;
mod giving_up;
mod histories;
mod memo;
mod overlay;
mod rules;
