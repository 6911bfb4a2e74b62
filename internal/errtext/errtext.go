// Package errtext makes unchecked text fit for an error: names of models and zones from a caller
// or a file may have any length and any bytes. It also joins the reasons of a denial. The limiter,
// its time zones, the readers of its files and the reporter use it.
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

// Cut returns a text of at most so many bytes as it is, and a longer one cut there, between two
// runes, with an ellipsis.
func Cut(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Longest returns the reason of several limits that deny: the first of them, and the one that
// denies for longest, which belongs to of (empty for what the first belongs to). Both may be such
// reasons.
func Longest(first, of, last string) string {
	const longest = "; longest: "
	first, _, _ = strings.Cut(first, longest)
	if _, rest, found := strings.Cut(last, longest); found {
		last = rest
	}
	return first + longest + of + last
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
