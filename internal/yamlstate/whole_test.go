package yamlstate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// No beginning of a file of Encode is read, with whichever line ends.
func TestNoBeginningIsWhole(t *testing.T) {
	var file bytes.Buffer
	if err := Encode(&file, everyField(time.Now()), time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string]string{
		"as written":      file.String(),
		"CRLF":            strings.ReplaceAll(file.String(), "\n", "\r\n"),
		"byte order mark": byteOrderMark + file.String(),
	} {
		if _, err := Decode(strings.NewReader(whole)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range strings.LastIndex(whole, lastLine) + len(lastLine) + 1 {
			s, err := Decode(strings.NewReader(whole[:n]))
			if s != nil || n > len(byteOrderMark) && !errors.Is(err, errCut) || err == nil {
				t.Errorf("%s, cut after %d of %d bytes: %v", name, n, len(whole), err)
			}
		}
	}
}

// What follows the last line is white space, and of that no more than an editor would add.
func TestTailIsBounded(t *testing.T) {
	for spaces, want := range map[int]error{0: nil, 100: nil, maxTail: errCut} {
		_, err := Decode(strings.NewReader(firstLine + "\nstate: {}\n" + lastLine + "\n" + strings.Repeat("\n", spaces)))
		if !errors.Is(err, want) {
			t.Errorf("%d more lines: %v, want %v", spaces, err, want)
		}
	}
}
