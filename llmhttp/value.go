package llmhttp

import (
	"bytes"
	"encoding/json"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
)

// Kind is the type of a [Value].
type Kind byte

// The kinds of values.
const (
	Null   Kind = 'n'
	Bool   Kind = 'b'
	Number Kind = '0'
	String Kind = '"'
	Object Kind = '{' // an object begins; its values follow
	Array  Kind = '[' // an array begins; its values follow
)

// Value is one value of a JSON text, as an [Adapter] receives it: a scalar as a whole, an object
// or array at its opening bracket.
type Value struct {
	// Path is the keys that lead to the value, joined by dots. Arrays add nothing to it: the
	// string in {"choices":[{"delta":{"content":"Hi"}}]} has the path "choices.delta.content".
	// It is empty for the outermost value. Adapters do not receive values without a name: those
	// below a key that is longer than 64 bytes or contains a dot, and those below 16 levels. Path
	// is valid until the method that receives it returns.
	Path []byte
	Kind Kind
	// Text is the scalar as written, escapes included and quotes excluded. Of a string or a
	// number it is the first 256 bytes. It is valid as long as Path.
	Text []byte
	// Size is the length of a string in bytes of UTF-8 after unescaping. It is zero for other
	// kinds.
	Size int
}

// valueOf returns the value that adapters receive for one of the scanner.
func valueOf(v jsonscan.Value) Value {
	return Value{Path: v.Path, Kind: Kind(v.Kind), Text: v.Text, Size: v.Size}
}

// text returns the unescaped content of a string, as far as Text has it, and nothing for other
// kinds.
func (v *Value) text() string {
	if v.Kind != String {
		return ""
	}
	if bytes.IndexByte(v.Text, '\\') < 0 {
		return string(v.Text)
	}
	// Text may end within an escape.
	for cut := 0; cut < len(`\u0000`) && cut <= len(v.Text); cut++ {
		var s string
		quoted := slices.Concat([]byte{'"'}, v.Text[:len(v.Text)-cut], []byte{'"'})
		if json.Unmarshal(quoted, &s) == nil {
			return s
		}
	}
	return ""
}

// isTrue reports whether the value is true.
func (v *Value) isTrue() bool { return v.Kind == Bool && bytes.Equal(v.Text, []byte("true")) }
