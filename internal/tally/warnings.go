package tally

import (
	"cmp"
	"fmt"
	"slices"
)

const mostWarnings = 100

// Warnings is the first 100 warnings, by their kinds and then by the models. The zero value has
// none. It is not safe for concurrent use.
type Warnings struct {
	first []warning
	all   int
}

type warning struct {
	kind  int
	model string
	err   error
}

// Add adds a warning. Those of a smaller kind are the more urgent ones.
func (w *Warnings) Add(kind int, model string, err error) {
	w.all++
	is := warning{kind, model, err}
	i, _ := slices.BinarySearchFunc(w.first, is, func(a, b warning) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.model, b.model))
	})
	if i >= mostWarnings {
		return
	}
	if len(w.first) == mostWarnings {
		w.first = w.first[:mostWarnings-1]
	}
	w.first = slices.Insert(w.first, i, is)
}

// Errors returns the warnings, nil for none. The last of more than 100 says how many are left out.
func (w *Warnings) Errors() (errs []error) {
	for _, is := range w.first {
		errs = append(errs, is.err)
	}
	if w.all > mostWarnings {
		errs[mostWarnings-1] = fmt.Errorf("%d more warnings are left out: correct these first", w.all-(mostWarnings-1))
	}
	return errs
}
