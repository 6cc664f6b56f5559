// Package lookalikes is the command `dedup lookalikes`. It says how often the
// look-alike guard of package tool would have spoken in recorded sessions, and
// to what: a repeat of something that had failed, or a second action that was
// meant.
package lookalikes
