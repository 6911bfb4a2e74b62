package llmhttp

import (
	"bytes"
	"encoding/json"
	"testing"
)

// applied returns a body with its usageEdit applied, or nothing without an edit.
func applied(body string) string {
	e, ok := usageEdit([]byte(body))
	if !ok {
		return ""
	}
	return body[:e.begin] + e.text + body[e.end:]
}

func TestUsageEdit(t *testing.T) {
	const option = `{"include_usage":true}`
	for _, test := range []struct{ body, want string }{
		{`{}`, `{"stream_options":` + option + `}`},
		{" {\n} ", " {\"stream_options\":" + option + "\n} "},
		{`{"a":1}`, `{"stream_options":` + option + `,"a":1}`},
		{`{"a":{"stream_options":1},"b":["stream_options"]}`, `{"stream_options":` + option + `,"a":{"stream_options":1},"b":["stream_options"]}`},
		{`{"a":"stream_options","b":"\"}{"}`, `{"stream_options":` + option + `,"a":"stream_options","b":"\"}{"}`},
		{`{"stream_options":null}`, `{"stream_options":` + option + `}`},
		{`{"stream_options" : null , "a":1}`, `{"stream_options" : ` + option + ` , "a":1}`},
		{`{"a":1,"stream_options":{}}`, `{"a":1,"stream_options":` + option + `}`},
		{`{"stream_options":{ "x":{"y":[1]} },"a":1}`, `{"stream_options":{"include_usage":true, "x":{"y":[1]} },"a":1}`},
		{`{"stream\u005foptions":{}}`, `{"stream\u005foptions":` + option + `}`},
		{`{"stream_options":{"include_usage":false}}`, ``},
		{`{"stream_options":"x"}`, ``},
		{`{"stream_options":[]}`, ``},
		{`{"stream_options":`, ``},
		{`{"a":1`, ``},
		{`{"a`, ``},
		{`{`, ``},
		{`["stream_options"]`, ``},
		{`"stream_options"`, ``},
		{`{"stream_options": ,`, ``},
		{`{"stream_options":}`, ``},
		{``, ``},
	} {
		if got := applied(test.body); got != test.want {
			t.Errorf("%s: got %s, want %s", test.body, got, test.want)
		}
	}
}

// In any JSON object, an edit sets the option and nothing else.
func FuzzUsageEdit(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,{"b":"\\"}],"stream_options":{"x":1}}`, `{"stream_options":null,"stream_options":{}}`,
		`{"a":"\"stream_options\":"}`, `{"\u0073tream_options":{}}`, `[{}]`, ` { } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text := applied(string(body))
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || before == nil ||
			bytes.Count(body, []byte("stream_options"))+bytes.Count(body, []byte(`\u`)) > 1 {
			return // usageEdit gets valid JSON, and the first of two keys, where Unmarshal takes the last
		}
		var had, has map[string]json.RawMessage
		isObject := before["stream_options"] == nil || json.Unmarshal(before["stream_options"], &had) == nil
		if set := had["include_usage"] != nil; text == "" {
			if isObject && !set {
				t.Fatalf("%s: no edit", body)
			}
			return
		}
		if err := json.Unmarshal([]byte(text), &after); err != nil {
			t.Fatalf("%s became %s: %v", body, text, err)
		}
		if err := json.Unmarshal(after["stream_options"], &has); err != nil || string(has["include_usage"]) != "true" {
			t.Fatalf("%s became %s", body, text)
		}
		delete(has, "include_usage")
		delete(before, "stream_options")
		delete(after, "stream_options")
		if !same(had, has) || !same(before, after) {
			t.Fatalf("%s became %s", body, text)
		}
	})
}

func same(a, b map[string]json.RawMessage) bool {
	for key, value := range a {
		if !bytes.Equal(b[key], value) {
			return false
		}
	}
	return len(a) == len(b)
}
