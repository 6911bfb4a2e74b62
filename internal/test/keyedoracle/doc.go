// Package keyedoracle holds the independent checks of package keyed: a model that decides with big
// integers, a fleet of limiters on a simulated network, laws of the regions, and hammers that
// count exactly. All of it is tests, which know package keyed by its documentation only.
package keyedoracle
