// Package cli is what the commands of the program dedup have in common: the
// root command, how errors are reported, and the exit codes.
package cli
