package yamlfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// found writes the section of that name, if there is anything to write. Numbers that are zero are
// left out, but for the time.
func (w *encoder) found(of string, found map[string]state.Found) {
	if len(found) == 0 {
		return
	}
	w.section(of+"found", len(found))
	for _, model := range slices.Sorted(maps.Keys(found)) {
		f := found[model]
		w.model(model)
		for _, field := range state.FoundFields {
			if n := field.Of(&f); *n != 0 || n == &f.At {
				w.number(field.Key, *n)
			}
		}
		if f.Told {
			w.number(state.ToldKey, 1)
		}
	}
}

func (b snapshotBuilder) found(model string, n *yaml.Node) error {
	var f state.Found
	err := eachField(n, func(key string, value *yaml.Node) (err error) {
		into, isTold := foundField(&f, key)
		if into == nil && !isTold {
			return nil
		}
		is, err := integerOf(value, 64)
		if into == nil {
			f.Told = is == 1
			return checkTold(is, err)
		}
		*into = is
		return err
	})
	if err == nil {
		err = f.Check()
	}
	b.Found[model] = f
	return err
}

func (p *lineScanner) found(s *state.Snapshot, model string, indent int) error {
	if _, exists := s.Found[model]; exists {
		return inField("found", inField(model, errDuplicate))
	}
	var f state.Found
	err := p.fields(indent, func(key string) (err error) {
		var is int64
		into, isTold := foundField(&f, key)
		switch {
		case isTold:
			err = p.integer(key, &is)
			f.Told = is == 1
			return checkTold(is, err)
		case into != nil:
			return p.integer(key, into)
		}
		return errLayout
	})
	if err == nil {
		err = f.Check()
	}
	s.Found[model] = f
	return err
}

// foundField returns the number that has a key; nil where there is none, as for ToldKey.
func foundField(f *state.Found, key string) (into *int64, isTold bool) {
	for _, field := range state.FoundFields {
		if field.Key == key {
			return field.Of(f), false
		}
	}
	return nil, key == state.ToldKey
}

// checkTold refuses a value of ToldKey that is not 0 or 1, unless there is an error already.
func checkTold(is int64, err error) error {
	if err == nil && is != 0 && is != 1 {
		return fmt.Errorf("%d is not 0 or 1", is)
	}
	return err
}

// integer reads a number as EncodeState writes it.
func (p *lineScanner) integer(key string, into *int64) error {
	text, err := p.value(key)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != string(text) {
		return errLayout
	}
	*into = n
	return p.next()
}
