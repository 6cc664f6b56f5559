// Package draw is the command that makes the charts of the documents from the
// JSON that the measurements have written.
package draw
