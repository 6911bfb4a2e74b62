package llmhttp

import "bytes"

// token is the string, number or word at hand: its beginning, if it lies in several
// pieces, and what is to be known of a string.
type token struct {
	size    int // of a string, its bytes of UTF-8 so far; of a word, those that were found
	escaped bool
	escape  byte // bytes of an escape that were read: 1 is the backslash
	high    bool // what was read ends with the first half of a surrogate pair
	code    uint32
	held    int
	buf     [maxText]byte
}

// How reading a string ended.
const (
	tokenOpen = iota
	tokenDone
	tokenBad
)

func (t *token) begin() {
	t.size, t.escaped, t.escape, t.high, t.held = 0, false, 0, false, 0
}

// word makes the token that of which the whole text is known.
func (t *token) word(word string) {
	t.begin()
	t.held = copy(t.buf[:], word)
}

// keep adds to the beginning what of it p has.
func (t *token) keep(p []byte) { t.held += copy(t.buf[t.held:], p) }

func (t *token) kept() []byte { return t.buf[:t.held:t.held] }

// text returns the beginning of the token of which p is the last part. When p has all of
// it, it is not copied.
func (t *token) text(p []byte) []byte {
	if t.held > 0 {
		t.keep(p)
		return t.kept()
	}
	n := min(len(p), maxText)
	return p[:n:n]
}

// read reads a string from p[i:], up to and with its closing quote.
func (t *token) read(p []byte, i int) (end, state int) {
	// Both are searched from behind the last quote that was found, so that a string
	// full of escapes takes no longer than its length.
	quote := i - 1
	for i < len(p) {
		if t.escape > 0 {
			if !t.unescape(p[i]) {
				return i, tokenBad
			}
			i++
			continue
		}
		if quote < i {
			if n := bytes.IndexByte(p[i:], '"'); n >= 0 {
				quote = i + n
			} else {
				quote = len(p)
			}
		}
		run := bytes.IndexByte(p[i:quote], '\\')
		plain := run
		if run < 0 {
			plain = quote - i
		}
		if plain > 0 {
			t.size += plain
			t.high = false
		}
		i += plain
		if run < 0 {
			break
		}
		t.escape, t.escaped = 1, true
		i++
	}
	if i < len(p) {
		return i + 1, tokenDone
	}
	return i, tokenOpen
}

// unescape reads one byte behind a backslash.
func (t *token) unescape(c byte) bool {
	if t.escape == 1 {
		if c == 'u' {
			t.escape, t.code = 2, 0
			return true
		}
		t.escape, t.high = 0, false
		t.size++
		return true
	}
	digit := uint32(c - '0')
	if digit > 9 {
		digit = uint32(c|0x20) - 'a' + 10
		if digit < 10 || digit > 15 {
			return false
		}
	}
	t.code = t.code<<4 | digit
	if t.escape++; t.escape < 6 {
		return true
	}
	t.escape = 0
	low := t.code&0xFC00 == 0xDC00
	switch {
	case low && t.high:
		t.size++ // the first half alone had 3 of the 4
	case t.code < 0x80:
		t.size++
	case t.code < 0x800:
		t.size += 2
	default:
		t.size += 3
	}
	t.high = t.code&0xFC00 == 0xD800
	return true
}
