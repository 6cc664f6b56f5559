// Package chart draws charts as SVG, for the README and the documents: grouped
// bars and lines. It knows nothing of what is drawn.
//
// The same input gives the same bytes. A chart carries its own background and
// follows the reader's choice of light or dark, so that it can be read wherever
// it is shown: a page that is dark while the reader's system is light shows a
// light card.
package chart
