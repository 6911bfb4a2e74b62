package llmhttp

// Kind says what a Value is.
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

// Value is one value of a JSON text, as an [Adapter] is told of it: scalars whole,
// objects and arrays when they begin.
type Value struct {
	// Path is the keys that lead to the value, joined by dots. Arrays add nothing to
	// it, so that of {"choices":[{"delta":{"content":"Hi"}}]} the string has the path
	// "choices.delta.content". It is empty for the outermost value, and nil for one that
	// cannot be named: below a key that is longer than 64 bytes, has an escape or a dot in it, or
	// deeper than 16 levels; adapters are not told of those. It is valid until the method
	// that was given it returns.
	Path []byte
	Kind Kind
	// Text is the value as it was written, without quotes and with its escapes: of
	// a string or number its first 256 bytes. It is valid as long as Path.
	Text []byte
	// Size is how many bytes of UTF-8 a string has, escapes taken for what they
	// stand for. Zero for other kinds.
	Size int
}
