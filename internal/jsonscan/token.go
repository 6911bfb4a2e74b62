package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// token is the current string, number or word. It buffers the beginning of a token that spans
// several pieces.
type token struct {
	size    int    // of a string, its bytes of UTF-8 so far; of a word, the bytes that matched
	escaped bool   // the string contains an escape
	escape  byte   // bytes of the current escape so far: 1 is the backslash
	high    bool   // the string so far ends with the first half of a surrogate pair
	code    uint32 // of the current \u escape
	n       int    // bytes in buf
	buf     [maxText]byte
}

// The results of reading a string.
const (
	tokenOpen    = iota // the piece ended before the string
	tokenDone           // the closing quote was read
	tokenInvalid        // an escape has no hex digit where it needs one
)

func (t *token) begin() {
	t.size, t.escaped, t.escape, t.high, t.n = 0, false, 0, false, 0
}

// word starts a token that must read as the given word.
func (t *token) word(word string) {
	t.begin()
	t.n = copy(t.buf[:], word)
}

// keep appends p to the buffered beginning of the token, as far as there is room.
func (t *token) keep(p []byte) { t.n += copy(t.buf[t.n:], p) }

func (t *token) kept() []byte { return t.buf[:t.n:t.n] }

// text returns the beginning of the token whose last part is p. A token that lies in p as a
// whole is not copied.
func (t *token) text(p []byte) []byte {
	if t.n > 0 {
		t.keep(p)
		return t.kept()
	}
	n := min(len(p), maxText)
	return p[:n:n]
}

// read reads a string from p[i:] up to and including its closing quote, and returns the index
// behind it.
func (t *token) read(p []byte, i int) (end, state int) {
	quote := -1 // the next quote at or after n; kept, so that each is searched for once
	for i < len(p) {
		if t.escape > 0 {
			if !t.unescape(p[i]) {
				return i, tokenInvalid
			}
			i++
			continue
		}
		n := special(p, i)
		if n == i+shortRun {
			if quote < n {
				if quote = bytes.IndexByte(p[n:], '"'); quote >= 0 {
					quote += n
				} else {
					quote = len(p)
				}
			}
			if slash := bytes.IndexByte(p[n:quote], '\\'); slash >= 0 {
				n += slash
			} else {
				n = quote
			}
		}
		if n > i {
			t.size = add(t.size, n-i)
			t.high = false
			i = n
		}
		if i == len(p) {
			break
		}
		i++
		if p[i-1] == '"' {
			return i, tokenDone
		}
		t.escape, t.escaped = 1, true
	}
	return i, tokenOpen
}

// unescape reads one byte of an escape. It reports false for a byte that must be a hex digit
// and is not.
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
		t.size++ // the pair takes 4 bytes, and its first half was counted as 3
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

// shortRun is the number of bytes that special examines before read falls back to
// bytes.IndexByte. Most strings end within it, where the call costs more than it saves.
const shortRun = 3 * 8

// special returns the index of the first quote or backslash in p[i:]. It gives up after shortRun
// bytes or at the end of p, and then returns that index.
func special(p []byte, i int) int {
	if len(p)-i < shortRun {
		for i < len(p) && p[i] != '"' && p[i] != '\\' {
			i++
		}
		return i
	}
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for range shortRun / 8 {
		word := binary.LittleEndian.Uint64(p[i:])
		quotes, slashes := word^'"'*ones, word^'\\'*ones
		// Marks zero bytes by their high bits. Only the lowest mark is reliable.
		if zero := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8
		}
		i += 8
	}
	return i
}

// StringLen returns the length in bytes, escapes as written, of the string that p begins with
// behind its opening quote: up to the closing quote, or to the end of p if p has none.
func StringLen(p []byte) int {
	if n := special(p, 0); n < len(p) && p[n] == '"' {
		return n
	}
	for from := 0; ; from++ {
		i := bytes.IndexByte(p[from:], '"')
		if i < 0 {
			return len(p)
		}
		from += i
		slashes := 0
		for slashes < from && p[from-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return from
		}
	}
}
