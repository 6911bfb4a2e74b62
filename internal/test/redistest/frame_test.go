package redistest

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadFrame(t *testing.T) {
	for _, tt := range []struct{ name, frame string }{
		{"simple", "+OK\r\n"},
		{"error", "-ERR no\r\n"},
		{"number", ":17\r\n"},
		{"null", "_\r\n"},
		{"bulk", "$5\r\na\r\nbc\r\n"},
		{"empty bulk", "$0\r\n\r\n"},
		{"null bulk", "$-1\r\n"},
		{"null array", "*-1\r\n"},
		{"empty array", "*0\r\n"},
		{"arrays in an array", "*3\r\n*2\r\n:1\r\n$1\r\na\r\n*0\r\n+OK\r\n"},
		{"map", "%2\r\n+a\r\n*1\r\n:1\r\n+b\r\n:2\r\n"},
		{"set", "~2\r\n:1\r\n:2\r\n"},
		{"push", ">2\r\n+message\r\n+a\r\n"},
		{"attribute and its value", "|1\r\n+a\r\n+b\r\n*1\r\n:1\r\n"},
		{"longer than the buffer", "$9000\r\n" + strings.Repeat("x", 9000) + "\r\n"},
		{"line longer than the buffer", "+" + strings.Repeat("x", 9000) + "\r\n"},
	} {
		r := bufio.NewReader(strings.NewReader(tt.frame + "+next\r\n"))
		got, err := readFrame(r, nil)
		if err != nil || string(got) != tt.frame {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.frame)
			continue
		}
		if next, err := readFrame(r, got[:0]); err != nil || string(next) != "+next\r\n" {
			t.Errorf("%s: %q, %v comes next", tt.name, next, err)
		}
		if got, err := readFrame(bufio.NewReader(strings.NewReader(tt.frame[:len(tt.frame)-1])), nil); err == nil {
			t.Errorf("%s: no error where the last byte is missing, but %q", tt.name, got)
		}
	}
	for _, bad := range []string{"", "\r\n", "$x\r\n", "*9999999999\r\n", "$9999999999\r\n"} {
		if got, err := readFrame(bufio.NewReader(strings.NewReader(bad)), nil); err == nil {
			t.Errorf("no error of %q, but %q", bad, got)
		}
	}
}
