package apicall

import (
	"encoding/json"
	"fmt"
)

// fields are the members of a JSON object.
type fields map[string]json.RawMessage

// has reports whether a member is there and not null.
func (f fields) has(name string) bool {
	value, found := f[name]
	return found && string(value) != "null"
}

// only returns those of some members that are there and not null.
func (f fields) only(names ...string) map[string]any {
	some := make(map[string]any, len(names))
	for _, name := range names {
		if f.has(name) {
			some[name] = f[name]
		}
	}
	return some
}

// read decodes a member. The error contains no part of it.
func (f fields) read(name string, into any) error {
	if json.Unmarshal(f[name], into) != nil {
		return fmt.Errorf("%w: %s is not as documented", ErrUnsupported, name)
	}
	return nil
}
