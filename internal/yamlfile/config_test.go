// DecodeConfig: every kind of field, and what is refused with which words.

package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

type name string

// level reads "high" and nothing else.
type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return fmt.Errorf("unknown level %q", text)
	}
	*l = 1
	return nil
}

// place is a text or a map.
type place struct {
	At string `yaml:"at"`
}

func (p *place) UnmarshalText(text []byte) error {
	p.At = string(text)
	return nil
}

type inner struct {
	Limit int           `yaml:"limit,omitempty"`
	Wait  time.Duration `yaml:"wait"`
}

type Embedded struct {
	Deep string `yaml:"deep"`
}

type config struct {
	Embedded
	Text  string           `yaml:"text"`
	On    bool             `yaml:"on_start,omitempty"`
	Level level            `yaml:"level"`
	Inner inner            `yaml:"inner"`
	Place place            `yaml:"place"`
	Names []name           `yaml:"names"`
	By    map[name]inner   `yaml:"by"`
	Tiers map[name]string  `yaml:"tiers"`
	Func  func()           `yaml:"-"`
	Chan  map[string]error `yaml:"errors"` // nothing that a file could hold
	Plain int
}

func TestDecode(t *testing.T) {
	for title, c := range map[string]struct {
		text string
		want config
	}{
		"nothing":          {"", config{}},
		"a comment":        {"# text: a\n", config{}},
		"null":             {"~", config{}},
		"all":              {"text: a\non_start: true\nlevel: high\ninner: {limit: 3, wait: 1m30s}\n", config{Text: "a", On: true, Level: 1, Inner: inner{3, 90 * time.Second}}},
		"JSON":             {`{"text": "a", "names": ["b"]}`, config{Text: "a", Names: []name{"b"}}},
		"lists and maps":   {"names:\n- a\n- b\nby:\n  x:\n    limit: 1\n  'y': {}\n", config{Names: []name{"a", "b"}, By: map[name]inner{"x": {Limit: 1}, "y": {}}}},
		"embedded":         {"text: a\ndeep: b\n", config{Text: "a", Embedded: Embedded{"b"}}},
		"a text or a map":  {"place: b\n", config{Place: place{"b"}}},
		"a map or a text":  {"place: {at: b}\n", config{Place: place{"b"}}},
		"null in a map":    {"by: {x: , y: ~}", config{By: map[name]inner{"x": {}, "y": {}}}},
		"null for a field": {"text:\ninner:\n  limit:\n", config{}},
		"empty":            {"names: []\nby: {}\n", config{Names: []name{}, By: map[name]inner{}}},
		"numbers as texts": {"text: 010\nnames: [1, true, 2026-01-01]\ntiers: {1: 2}\n", config{Text: "010", Names: []name{"1", "true", "2026-01-01"}, Tiers: map[name]string{"1": "2"}}},
		"no UTF-8":         {"text: !!binary /w==\nby: {!!binary \"/w==\": {}}\n", config{Text: "\xff", By: map[name]inner{"\xff": {}}}},
		"not a merge key":  {"by: {<<: {limit: 1}}", config{By: map[name]inner{"<<": {Limit: 1}}}},
		"below zero":       {"inner: {limit: -1, wait: -1s}", config{Inner: inner{-1, -time.Second}}},
		"long text":        {"text: |\n  a\n  b\n", config{Text: "a\nb\n"}},
	} {
		t.Run(title, func(t *testing.T) {
			var got config
			if err := DecodeConfig(strings.NewReader(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1":                                 "line 1: a: unknown key",
		"text: a\n\ntxet:\n  deep: 1\n":        "line 3: txet: unknown key",
		"plain: 1":                             "line 1: plain: unknown key",
		"Text: a":                              "line 1: Text: unknown key",
		"-: a":                                 "line 1: -: unknown key",
		"'': a":                                `line 1: "": unknown key`,
		"func: a":                              "line 1: func: unknown key",
		"inner:\n  limit: 1\n  limits: 2":      "line 3: inner.limits: unknown key",
		"by:\n  \"a b\":\n    limits: 2":       `line 3: by."a b".limits: unknown key`,
		"by: {é: {a: 1}}":                      `line 1: by."é".a: unknown key`,
		"text: a\ntext: b":                     "line 2: text: duplicate key",
		"by:\n  a: {}\n  !!binary YQ==: {}":    "line 3: by.a: duplicate key",
		"on_start: yes":                        `line 1: on_start: "yes" is not true or false`,
		"on_start: 1":                          `line 1: on_start: "1" is not true or false`,
		"inner: {limit: many}":                 `line 1: inner.limit: "many" is not an integer`,
		"inner: {limit: 1.5}":                  `line 1: inner.limit: "1.5" is not an integer`,
		"inner: {limit: 010}":                  `line 1: inner.limit: "010" is not an integer`,
		"inner: {limit: 1_000}":                `line 1: inner.limit: "1_000" is not an integer`,
		"inner: {limit: \"1\"}":                `line 1: inner.limit: "1" is not an integer`,
		"inner: {limit: [1]}":                  `line 1: inner.limit: a list is not an integer`,
		"inner: {limit: 99999999999999999999}": `line 1: inner.limit: "99999999999999999999" is out of range`,
		"inner: {wait: 10}":                    `line 1: inner.wait: "10" is not a duration with its unit, such as 250ms`,
		"inner: {wait: {}}":                    `line 1: inner.wait: a map is not a duration with its unit, such as 250ms`,
		"inner: 1":                             `line 1: inner: "1" is not a map`,
		"inner: []":                            `line 1: inner: a list is not a map`,
		"names: a":                             `line 1: names: "a" is not a list`,
		"names:\n- a\n-\n":                     "line 3: names[1]: empty",
		"names: [{}]":                          "line 1: names[0]: a map is not a text",
		"text: [a]":                            "line 1: text: a list is not a text",
		"level: low":                           `line 1: level: unknown level "low"`,
		"level: {}":                            "line 1: level: a map is not a text",
		"hello":                                `line 1: "hello" is not a map`,
		"- a":                                  "line 1: a list is not a map",
		"~: a":                                 `line 1: key: "~" is not a text; write it in quotes`,
		"<<: {text: a}":                        "line 1: <<: unknown key",
		"[a]: b":                               "line 1: key: a list is not a text",
		"&a text: b":                           "line 1: key: an anchor &a",
		"text: &a b":                           "line 1: text: an anchor &a",
		"inner: &a {wait: 1s}\nby: {x: *a}":    "line 1: inner: an anchor &a",
		"text: !!str b":                        `line 1: text: a tag "!!str"`,
		"by: !!map {}":                         `line 1: by: a tag "!!map"`,
		"text: !!binary '='":                   `line 1: text: "=" is not base64`,
		"errors: {a: b}":                       "line 1: errors.a: cannot be read into error",
		"text: a\n---\ntext: b":                "a second document",
		"text: [":                              "yaml: line 1",
		strings.Repeat("[", 100_000):           "too many elements",
		strings.Repeat(" ", 1<<20) + "#":       "larger than 1048576 bytes",
	} {
		var got config
		err := DecodeConfig(strings.NewReader(text), &got)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %s", text, err, want)
		}
	}
}

func TestDecodeReadsToTheEnd(t *testing.T) {
	broken := errors.New("broken pipe")
	if err := DecodeConfig(iotest.ErrReader(broken), new(config)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	var got config
	r := iotest.OneByteReader(strings.NewReader("text: a\n#" + strings.Repeat("x", 1<<20-9)))
	if err := DecodeConfig(r, &got); err != nil || got.Text != "a" {
		t.Errorf("a text of exactly 1 MiB: got %+v, %v", got, err)
	}
	endless := io.MultiReader(strings.NewReader("text: a\n#"), endlessSpaces{})
	if err := DecodeConfig(endless, new(config)); err == nil {
		t.Error("no error for a text without an end")
	}
}

type endlessSpaces struct{}

func (endlessSpaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "text: a\n", "inner: {limit: 3, wait: 1m30s}", "by:\n  x: {limit: 1}\n", "names: [a, b]", "level: high",
		"? a\n: b\n", "text: |\n  a\n", "text: !!binary /w==", "a: &a [*a]", "<<: {}", "---\n---\n", "{{{}}}", "- - a",
		"by: {!!binary \"/w==\": {}}", "%YAML 1.1\n---\ntext: a", "\ufefftext: a", "text: \"\\x00\\u0041\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got config
		if err := DecodeConfig(strings.NewReader(string(data)), &got); err != nil {
			if text := err.Error(); text == "" || len(text) > 2000 {
				t.Errorf("%d bytes of error: %.100q", len(text), text)
			}
		}
	})
}
