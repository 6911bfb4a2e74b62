package llmhttp

import (
	"bytes"
	"strings"
)

// pattern is a sequence of bytes that is searched for in many short texts. The byte
// of it that is the rarest in answers is searched for, which is several times as fast as
// bytes.Index: that looks for the first byte, and a quote is everywhere.
type pattern struct {
	text []byte
	rare int // index of the byte
}

// commonest are bytes of JSON and English, the most common ones first.
const commonest = `"etaonisrcld:,hupm{}[]_0123456789fgywb `

func patternOf(text string) pattern {
	p := pattern{text: []byte(text)}
	rarity := -1
	for i := range len(text) {
		r := strings.IndexByte(commonest, text[i])
		if r < 0 {
			r = len(commonest)
		}
		if r > rarity {
			p.rare, rarity = i, r
		}
	}
	return p
}

// index returns where the pattern is in data first, or -1.
func (p *pattern) index(data []byte) int {
	if len(p.text) == 0 {
		return 0
	}
	for i := p.rare; i < len(data); i++ {
		n := bytes.IndexByte(data[i:], p.text[p.rare])
		if n < 0 {
			return -1
		}
		i += n
		if from := i - p.rare; data[from] == p.text[0] && bytes.HasPrefix(data[from:], p.text) {
			return from
		}
	}
	return -1
}
