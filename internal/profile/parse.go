package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Parse reads all *.json in the top folder of files. It is strict: an error names the file, and
// the field or the row, for a field that is unknown or comes twice, and for all that Provider's
// fields promise and does not hold.
func Parse(files fs.FS) (*Set, error) {
	all, err := parseFiles(files, "profiles", parseProvider, func(p *Provider) string { return p.Name })
	if err != nil {
		return nil, err
	}
	return &Set{all}, nil
}

// parseFiles reads all *.json in the top folder of files, each of which has the name of its
// provider. what is what they have.
func parseFiles[T any](files fs.FS, what string, parse func(text []byte) (*T, error), provider func(*T) string) (map[string]*T, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", what, err)
	}
	all := make(map[string]*T, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", what, err)
		}
		is, err := parse(text)
		if err == nil && provider(is) != strings.TrimSuffix(path.Base(name), ".json") {
			err = fmt.Errorf("provider is %q, which the name of the file is not", provider(is))
		}
		if err != nil {
			return nil, fmt.Errorf("parse %s: %s: %w", what, name, err)
		}
		all[provider(is)] = is
	}
	return all, nil
}

// parseProvider reads the text of one file.
func parseProvider(text []byte) (*Provider, error) {
	var p Provider
	if err := decode(text, &p); err != nil {
		return nil, err
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

// decode decodes the text of one file, in which each field is known and comes once.
func decode(text []byte, into any) error {
	if err := checkKeys(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode: there is more after the object")
	}
	return nil
}

// checkKeys looks for what encoding/json lets pass: a key that comes twice, and one in another
// case than the field.
func checkKeys(text []byte) error {
	type level struct {
		keys  map[string]bool // nil in an array
		value bool            // the next token of the object is a value
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var open []level
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if delim, ok := token.(json.Delim); ok && (delim == ']' || delim == '}') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].keys != nil {
			in := &open[len(open)-1]
			if !in.value {
				key := token.(string)
				if key != strings.ToLower(key) {
					return fmt.Errorf("decode: unknown field %q", key)
				}
				if in.keys[key] {
					return fmt.Errorf("decode: field %q comes twice", key)
				}
				in.keys[key] = true
			}
			in.value = !in.value
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: make(map[string]bool)})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}
