package settings

import (
	"fmt"
	"slices"
	"strings"
)

// PolicyWords turn policies into words and back: the values of a type, such as UnknownPolicy, that
// are the integers from 0 on. They never change.
type PolicyWords struct {
	Type  string   // such as "UnknownPolicy"
	What  string   // as errors call it, such as "unknown policy"
	Words []string // of the values 0, 1 and so on
}

// String returns the word of a value, and for another value its type and number.
func (w *PolicyWords) String(value int) string {
	if !w.has(value) {
		return fmt.Sprintf("%s(%d)", w.Type, value)
	}
	return w.Words[value]
}

// Marshal returns the word of a value. It fails for another value.
func (w *PolicyWords) Marshal(value int) ([]byte, error) {
	if !w.has(value) {
		return nil, fmt.Errorf("%s is %d, want %s", w.What, value, w.want())
	}
	return []byte(w.Words[value]), nil
}

// Unmarshal sets the value that a word stands for. It fails for any other text, and changes
// nothing then.
func (w *PolicyWords) Unmarshal(value *int, text []byte) error {
	i := slices.Index(w.Words, string(text))
	if i < 0 {
		return fmt.Errorf("%s is %q, want %s", w.What, text, w.want())
	}
	*value = i
	return nil
}

func (w *PolicyWords) has(value int) bool { return value >= 0 && value < len(w.Words) }

func (w *PolicyWords) want() string {
	return `"` + strings.Join(w.Words, `" or "`) + `"`
}
