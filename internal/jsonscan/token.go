package llmhttp

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

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
	quote := -1 // the last that was found: behind n, there is none before it
	for i < len(p) {
		if t.escape > 0 {
			if !t.unescape(p[i]) {
				return i, tokenBad
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
			t.size = sum(t.size, n-i)
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

// shortRun is how many bytes of a string are looked at before it is searched. Most
// strings are so short that a call takes longer.
const shortRun = 3 * 8

// special returns where the first quote or backslash is in p from i on, or where it gave up:
// after shortRun bytes or at the end.
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
		// The high bit of the first byte that is zero; later ones may be wrong.
		if zero := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8
		}
		i += 8
	}
	return i
}
