// Package counts has the command `dedup stats`: how many calls each tool had, and how many of
// them were duplicates. It reads what Sweepers have recorded, else the planner's estimates,
// and no record.
package counts
