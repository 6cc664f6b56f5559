// Package upstream holds reports for the projects that this one is built on, each
// with a reproduction that is run as a test until it no longer reproduces.
package upstream
