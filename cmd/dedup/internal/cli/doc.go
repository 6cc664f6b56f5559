// Package cli is what the commands of the program dedup have in common: the
// root command, groups of commands, and the flags that name a database.
package cli
