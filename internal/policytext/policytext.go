// Package policytext turns the policies of a configuration into words and back: types whose values
// are the integers from 0 on. The limiter uses it for UnknownPolicy and UnpricedPolicy.
package policytext

import (
	"fmt"
	"slices"
	"strings"
)

// Words are the words of a type of policies, which never change.
type Words struct {
	Type  string   // such as "UnknownPolicy"
	What  string   // as errors call it, such as "unknown policy"
	Words []string // of the values 0, 1 and so on
}

// String returns the word of a value, and for another value its type and number.
func (w *Words) String(value int) string {
	if !w.has(value) {
		return fmt.Sprintf("%s(%d)", w.Type, value)
	}
	return w.Words[value]
}

// Marshal returns the word of a value. It fails for another value.
func (w *Words) Marshal(value int) ([]byte, error) {
	if !w.has(value) {
		return nil, fmt.Errorf("%s is %d, want %s", w.What, value, w.want())
	}
	return []byte(w.Words[value]), nil
}

// Unmarshal sets the value that a word stands for. It fails for any other text, and changes
// nothing then.
func (w *Words) Unmarshal(value *int, text []byte) error {
	i := slices.Index(w.Words, string(text))
	if i < 0 {
		return fmt.Errorf("%s is %q, want %s", w.What, text, w.want())
	}
	*value = i
	return nil
}

func (w *Words) has(value int) bool { return value >= 0 && value < len(w.Words) }

func (w *Words) want() string {
	return `"` + strings.Join(w.Words, `" or "`) + `"`
}
