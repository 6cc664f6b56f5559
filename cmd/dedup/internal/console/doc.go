// Package console has the command `dedup console`, which serves the console of package
// dedupweb on this machine to the one person who is given its link.
package console
