// Package errtext makes unchecked text fit for an error: names of models and zones from a caller
// or a file may have any length and any bytes. The limiter, its time zones and the readers of its
// files use it.
package errtext

import (
	"strings"
	"unicode"
)

const (
	maxName = 128 // bytes of a name
	maxText = 600 // bytes of the text of an error
)

// Clip returns a name of at most 128 bytes as it is, and a longer one cut there, with an
// ellipsis. It leaves unprintable bytes to %q.
func Clip(name string) string {
	if len(name) > maxName {
		return name[:maxName] + "…"
	}
	return name
}

// Printable returns an error that wraps err, and whose text is at most the first 600 bytes
// of err's, with spaces for what cannot be printed. err must not be nil.
func Printable(err error) error { return printable{err} }

type printable struct{ error }

func (p printable) Unwrap() error { return p.error }

func (p printable) Error() string {
	text := p.error.Error()
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text[:min(len(text), maxText)])
}
