package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
)

// oracle returns by means of encoding/json the values that a Scanner must report for texts and
// the length of their strings, or false if they are no JSON.
func oracle(text []byte) (values []string, size int, ok bool) {
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, 0, false
		}
		// encoding/json reads 00 as two numbers, a Scanner as one.
		if end := int(dec.InputOffset()); ofNumber(raw[0]) && end < len(text) && ofNumber(text[end]) {
			return nil, 0, false
		}
		size += walk(raw, &values)
	}
	return values, size, true
}

// walk appends the values of one text and returns the length of its strings.
func walk(raw []byte, values *[]string) (total int) {
	type level struct {
		object, value bool // value: a value follows, not a key
		key           string
	}
	var open []level
	path := func() string {
		var keys []string
		for i, l := range open {
			if !l.object || i == len(open)-1 && !l.value {
				continue
			}
			key := l.key
			if strings.Contains(key, `\`) {
				if len(key) >= 256 {
					return "?"
				}
				key = unescaped(key)
			}
			if sizeOf(l.key) > 64 || strings.Contains(key, ".") {
				return "?"
			}
			keys = append(keys, key)
		}
		if len(keys) > 16 {
			return "?"
		}
		return strings.Join(keys, ".")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	for at := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return total
		}
		end := int(dec.InputOffset())
		text := strings.TrimLeft(string(raw[at:end]), " \t\r\n,:")
		at = end
		kind, size := Kind(text[0]), 0
		switch text[0] {
		case '"':
			text = text[1 : len(text)-1]
			size = sizeOf(text)
			total += size
		case 't', 'f':
			kind = Bool
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			kind = Number
		}
		last := len(open) - 1
		switch {
		case text == "}" && token == json.Delim('}'), text == "]" && token == json.Delim(']'):
			open = open[:last]
			continue
		case last >= 0 && open[last].object && !open[last].value:
			open[last].key, open[last].value = text, true
			continue
		}
		if kind == Object || kind == Array {
			text = ""
		}
		*values = append(*values, format(Value{Path: []byte(path()), Kind: kind, Text: []byte(text[:min(len(text), 256)]), Size: size}))
		if last >= 0 {
			open[last].value = false
		}
		if kind == Object || kind == Array {
			open = append(open, level{object: kind == Object})
		}
	}
}

// unescaped resolves the escapes of a text by encoding/json. Bytes beyond ASCII stay as they are.
func unescaped(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		end := 0 // of what is ASCII
		for end < len(text) && text[end] < 0x80 {
			end++
		}
		var s string
		if err := json.Unmarshal([]byte(`"`+text[:end]+`"`), &s); err != nil {
			panic(err)
		}
		b.WriteString(s)
		text = text[end:]
		for end = 0; end < len(text) && text[end] >= 0x80; {
			end++
		}
		b.WriteString(text[:end])
		text = text[end:]
	}
	return b.String()
}

// sizeOf returns the length of a string in bytes after unescaping. Bytes beyond ASCII count as
// they are.
func sizeOf(text string) int {
	ascii := []byte(`"` + text + `"`)
	for i, c := range ascii {
		if c >= 0x80 {
			ascii[i] = 'x'
		}
	}
	var s string
	if err := json.Unmarshal(ascii, &s); err != nil {
		panic(err)
	}
	return len(s)
}

// randomJSON appends a random text, which at depth 0 is an object or an array.
func randomJSON(rng *rand.Rand, text []byte, depth int) []byte {
	space := func() { text = append(text, "  \n\t"[:rng.IntN(5)]...) }
	kind := rng.IntN(9)
	if depth == 0 {
		kind = 6 + rng.IntN(3)
	}
	if depth > 25 {
		kind = rng.IntN(6)
	}
	switch kind {
	case 0:
		return append(text, []string{"null", "true", "false"}[rng.IntN(3)]...)
	case 1:
		return append(text, []string{"0", "-1", "12.5e+7", "1E9", "123456789012345678901234567890"}[rng.IntN(5)]...)
	case 2, 3, 4, 5:
		return randomString(rng, text)
	case 6:
		text = append(text, '[')
		for i := range rng.IntN(5) {
			if i > 0 {
				text = append(text, ',')
			}
			space()
			text = randomJSON(rng, text, depth+1)
			space()
		}
		return append(text, ']')
	}
	text = append(text, '{')
	for i := range rng.IntN(5) {
		if i > 0 {
			text = append(text, ',')
		}
		space()
		text = randomString(rng, text)
		space()
		text = append(text, ':')
		space()
		text = randomJSON(rng, text, depth+1)
		space()
	}
	return append(text, '}')
}

// randomString appends a string with quotes, escapes and sometimes hundreds of bytes.
func randomString(rng *rand.Rand, text []byte) []byte {
	parts := []string{"a", "b", "usage", "content", "é", "€", "😀", " ", "xxxxxxxxxxxxxxxx", `\"`, `\\`, `\n`, `\u0041`, `\u00e9`, `\u20ac`, `\ud83d`, `\ude00`, `\ud83d\ude00`, "."}
	most := len(parts)
	if rng.IntN(2) == 0 {
		most = 4
	}
	text = append(text, '"')
	for range rng.IntN(6) {
		text = append(text, parts[rng.IntN(most)]...)
	}
	if rng.IntN(20) == 0 {
		text = append(text, strings.Repeat("y", rng.IntN(400))...)
	}
	return append(text, '"')
}
