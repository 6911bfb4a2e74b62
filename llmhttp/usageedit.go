package llmhttp

import (
	"bytes"
	"encoding/json"

	"dappco.re/go/core/go-ratelimit/internal/jsonscan"
)

// edit replaces the bytes from begin to end of a body by text.
type edit struct {
	begin, end int
	text       string
}

// usageEdit returns the edit that sets stream_options.include_usage in a body. It returns false for
// a body that sets it already, and for one that is no JSON object. The body may be large, so it is
// walked through and not decoded.
func usageEdit(body []byte) (edit, bool) {
	const option = `"include_usage":true`
	open := len(body) - len(trimSpace(body)) + 1 // behind the bracket
	if open > len(body) || body[open-1] != '{' {
		return edit{}, false
	}
	insert := `"stream_options":{` + option + `}`
	if next := trimSpace(body[open:]); len(next) > 0 && next[0] != '}' {
		insert += ","
	}
	begin, end, ok := member(body, open, "stream_options")
	switch {
	case !ok:
		return edit{}, false
	case begin == 0:
		return edit{open, open, insert}, true
	}
	value := body[begin:end]
	var options map[string]json.RawMessage
	if json.Unmarshal(value, &options) != nil || options["include_usage"] != nil {
		return edit{}, false
	}
	if len(options) > 0 {
		return edit{begin + 1, begin + 1, option + `,`}, true
	}
	return edit{begin, end, `{` + option + `}`}, true // in place of null or {}
}

// member returns the place of the first value that a key has in a JSON object, whose members begin
// at body[i:]; zeros without the key. It returns false for an object that is cut off.
func member(body []byte, i int, key string) (begin, end int, ok bool) {
	for depth := 1; i < len(body); i++ {
		switch c := body[i]; c {
		case '{', '[':
			depth++
		case '}', ']', ',':
			outermost := depth == 1
			if c != ',' {
				depth--
			}
			switch {
			case outermost && begin > 0:
				return begin, begin + len(bytes.TrimRight(body[begin:i], " \t\r\n")), true
			case depth == 0:
				return 0, 0, true
			}
		case '"':
			text := body[i:min(i+2+jsonscan.StringLen(body[i+1:]), len(body))]
			i += len(text) - 1 // at the closing quote
			rest := trimSpace(body[i+1:])
			isKey := depth == 1 && begin == 0 && len(rest) > 0 && rest[0] == ':'
			if isKey && isString(text, key) {
				begin = len(body) - len(trimSpace(rest[1:]))
				i = begin - 1
			}
		}
	}
	return 0, 0, false
}

// isString reports whether a quoted text stands for s.
func isString(text []byte, s string) bool {
	var unescaped string
	return len(text) <= len(`\u0000`)*len(s)+2 && json.Unmarshal(text, &unescaped) == nil && unescaped == s
}
