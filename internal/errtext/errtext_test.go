package errtext_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

func TestClip(t *testing.T) {
	long := strings.Repeat("x", 128)
	for name, want := range map[string]string{
		"":         "",
		"gpt-4o":   "gpt-4o",
		long:       long,
		long + "y": long + "…",
		"a\nb":     "a\nb",
	} {
		if got := errtext.Clip(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"no such table: a":             "no such table: a",
		"a\nb\x00c\x1b[31m\u202e":      "a b c [31m ",
		"ünïcode…":                     "ünïcode…",
		strings.Repeat("x", 600) + "y": strings.Repeat("x", 600),
	} {
		err := errtext.Printable(errors.New(text))
		if got := err.Error(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if err := errtext.Printable(fmt.Errorf("read: %w", io.EOF)); !errors.Is(err, io.EOF) {
		t.Error("the cause cannot be matched")
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aéb", 2, "a…"}, {"aéb", 3, "aé…"}} {
		if got := errtext.Cut(tt.text, tt.most); got != tt.want {
			t.Errorf("%q to %d is %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

func TestLongest(t *testing.T) {
	for _, tt := range [][4]string{
		{"a", "", "b", "a; longest: b"},
		{"a; longest: b", "p: ", "c", "a; longest: p: c"},
		{"a", "p: ", "c; longest: d", "a; longest: p: d"},
	} {
		if got := errtext.Longest(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%q, %q and %q are %q, want %q", tt[0], tt[1], tt[2], got, tt[3])
		}
	}
}
