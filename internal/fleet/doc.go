// Package fleet tests two versions of the library on one table, as in a fleet during a
// deploy: the version of [Old], and the one of this checkout. Program caller is built with
// each of them.
package fleet

// Old is the commit of the older version, which its users run.
const Old = "f042a1f31fbfc25de72b5f29d4d3fe9147ab4ec5"
