package notice_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/notice"
)

func TestPathsAreBounded(t *testing.T) {
	var p notice.UncountedPaths
	for i := range notice.MaxPaths {
		path := fmt.Sprint("/", i)
		for _, want := range []bool{true, false} {
			if name, first := p.Meet(path); name != path || first != want {
				t.Fatalf("%s: %q, %t, want %t", path, name, first, want)
			}
		}
	}
	for i, path := range []string{"/another", "/and/another", "others"} {
		if name, first := p.Meet(path); name != notice.OtherPaths || first != (i == 0) {
			t.Errorf("%s: %q, %t", path, name, first)
		}
	}
	if name, first := p.Meet("/7"); name != "/7" || first {
		t.Errorf("a known path: %q, %t", name, first)
	}
}

func TestCut(t *testing.T) {
	for name, want := range map[string]string{
		"/v1/chat":                            "/v1/chat",
		"/a\nb\x00":                           "/a\ufffdb\ufffd",
		"\xff/a":                              "/a",
		strings.Repeat("x", 300):              strings.Repeat("x", 256),
		strings.Repeat("x", 255) + "ä":        strings.Repeat("x", 255),
		strings.Repeat("x", 255) + "\n":       strings.Repeat("x", 255),
		strings.Repeat("\x01", 256) + "/tail": strings.Repeat("\ufffd", 85),
	} {
		if got := notice.CutName(name); got != want || !utf8.ValidString(got) {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}
