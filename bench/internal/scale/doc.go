// Package scale measures what a single call on a small table does not show: how
// dedup.Do fares as its table grows, while expired records are swept, while many
// twins wait for one slow effect, and over hours of steady load.
//
// Each of its commands starts a private server with the settings of production
// and its data on a disk, and writes what it measured to the terminal and, with
// --json, to a file. What is wanted stands beside what is measured, met or not.
package scale
