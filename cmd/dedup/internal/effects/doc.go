// Package effects has the commands for effects outside of the database, those of package
// external: `dedup parked` lists what somebody has to look at, and `dedup resolve` stores what
// they found.
//
// The program has no tools. It stores a verdict, and a process that has the tool carries it
// out.
package effects
