package jsonscan

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape appends a string without quotes as it stands in a text to buf, with its escapes
// resolved as encoding/json does. The escapes have all of their digits.
func unescape(buf, text []byte) []byte {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			buf = append(buf, text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'u':
			r := codeUnit(text[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := utf16.DecodeRune(r, nextUnit(text[i+1:]))
				if r = utf8.RuneError; pair != utf8.RuneError {
					r = pair
					i += len(`\u0000`)
				}
			}
			buf = utf8.AppendRune(buf, r)
		case 'b':
			buf = append(buf, '\b')
		case 'f':
			buf = append(buf, '\f')
		case 'n':
			buf = append(buf, '\n')
		case 'r':
			buf = append(buf, '\r')
		case 't':
			buf = append(buf, '\t')
		default: // a quote, a slash, a backslash
			buf = append(buf, c)
		}
	}
	return buf
}

// nextUnit returns the code unit of the escape that a text begins with; zero for none.
func nextUnit(text []byte) rune {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	return codeUnit(text[1:])
}

// codeUnit returns the code unit of an escape behind its backslash; zero if it is cut off.
func codeUnit(text []byte) rune {
	if len(text) < len("u0000") {
		return 0
	}
	n, _ := strconv.ParseUint(string(text[1:5]), 16, 16)
	return rune(n)
}
