// Package jsonscan reads JSON that arrives in pieces, in constant memory: a [Scanner] reports
// each value with its path of keys as soon as the value is complete, and never holds the text.
//
// Package llmhttp reads with it the bodies of requests and answers as they pass by, and package
// httplimit those of responses.
package jsonscan

// Kind is the type of a [Value]. Its codes are the bytes that values of the type begin with.
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

// Value is one value of a JSON text: a scalar as a whole, an object or array at its opening
// bracket. Path and Text are valid only until the function that receives the value returns.
type Value struct {
	// Path is the keys that lead to the value, joined by dots. Arrays add nothing to it: the
	// string in {"choices":[{"delta":{"content":"Hi"}}]} has the path "choices.delta.content".
	// It is empty for the outermost value, and nil for a value without a name: one below a key
	// that is longer than 64 bytes or contains a dot, or one below 16 levels. Escapes in keys are
	// resolved.
	Path []byte
	Kind Kind
	// Text is the scalar as written, escapes included and quotes excluded. Of a string or a
	// number it is the first 256 bytes.
	Text []byte
	// Size is the length of a string in bytes of UTF-8 after unescaping. It is zero for other
	// kinds.
	Size int
}
