package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// picture returns an image file of a size.
func picture(t *testing.T, format string, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch blank := image.NewGray(image.Rect(0, 0, width, height)); format {
	case "png":
		err = png.Encode(&b, blank)
	case "gif":
		err = gif.Encode(&b, blank, nil)
	case "jpeg":
		err = jpeg.Encode(&b, blank, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// wave returns a WAV file of 16,000 bytes a second.
func wave(seconds int) []byte {
	head := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00")
	head = binary.LittleEndian.AppendUint32(head, 16_000)
	return append(head, make([]byte, 16_000*seconds-len(head))...)
}

// tokens is Tokens for the string that a body has for a file.
func tokens(provider, prefix string, file []byte) int {
	text := prefix + base64.StdEncoding.EncodeToString(file)
	return Tokens(provider, []byte(text[:min(len(text), 256)]), len(text))
}

func TestTokens(t *testing.T) {
	tests := []struct {
		name, provider, prefix string
		file                   []byte
		want                   int
	}{
		{"OpenAI, a square of one tile", "openai", "data:image/png;base64,", picture(t, "png", 512, 512), 255},
		{"OpenAI's example of 1024", "openai", "data:image/png;base64,", picture(t, "png", 1024, 1024), 765},
		{"OpenAI's example of 2048 by 4096", "openai", "data:image/png;base64,", picture(t, "png", 2048, 4096), 1105},
		{"Anthropic's example of 200", "anthropic", "", picture(t, "png", 200, 200), 54},
		{"Anthropic's example of 1000", "anthropic", "", picture(t, "gif", 1000, 1000), 1334},
		{"Anthropic, scaled down", "anthropic", "", picture(t, "png", 3136, 784), 820},
		{"Gemini, small", "gemini", "", picture(t, "png", 384, 384), 258},
		{"Gemini's example of 960 by 540", "gemini", "", picture(t, "png", 960, 540), 1548},
		{"Gemini, WAV", "gemini", "", wave(10), 320},
		{"WAV elsewhere", "openai", "", wave(10), Unknown},
		{"JPEG without a preview", "anthropic", "", picture(t, "jpeg", 300, 250), 100},
		{"another provider", "ollama", "", picture(t, "png", 512, 512), Unknown},
		{"no image", "openai", "data:image/png;base64,", make([]byte, 1000), Unknown},
		{"a PDF", "anthropic", "", []byte("%PDF-1.7" + strings.Repeat(" ", 1000)), Unknown},
		{"nothing", "openai", "", nil, Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tokens(tt.provider, tt.prefix, tt.file); got != tt.want {
				t.Errorf("%d tokens, want %d", got, tt.want)
			}
		})
	}
}

func TestWebP(t *testing.T) {
	for name, head := range map[string]string{
		"VP8 ": "RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a\x2c\x01\xfa\x00",
		"VP8L": "RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f\x2b\x41\x3e\x00\x00\x00\x00\x00\x00",
		"VP8X": "RIFF\x00\x00\x00\x00WEBPVP8X\x00\x00\x00\x00\x00\x00\x00\x00\x2b\x01\x00\xf9\x00\x00",
	} {
		if w, h, ok := imageSize([]byte(head)); !ok || w != 300 || h != 250 {
			t.Errorf("%s: %d by %d, %v", name, w, h, ok)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("openai", []byte("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAgAAAAIACAAAAADRE4smAAAC"), 1000)
	f.Add("gemini", []byte("UklGRgAAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAA"), 100_000)
	f.Add("anthropic", []byte("/9j/4AAQSkZJRgABAQAAAQABAAD/wAALCAAQABABAREA"), 5)
	f.Add("gemini", []byte("data:"), -1)
	f.Fuzz(func(t *testing.T, provider string, head []byte, size int) {
		if n := Tokens(provider, head, max(size, len(head))); n <= 0 {
			t.Errorf("%d tokens", n)
		}
	})
}
