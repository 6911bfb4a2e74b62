// Package media estimates the tokens of images and sounds in the body of a call, by the rules that
// the providers document, where the head of the file tells its size. Package llmhttp uses it.
package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// Unknown is the estimate, in tokens, for what has no rule or hides its size.
const Unknown = 1000

// maxSide is the largest width or height that is believed, in pixels.
const maxSide = 1 << 16

// Tokens returns the estimate for a string of a body that is media: a data URL or base64. head is
// its first bytes, as written, and size the length of all of it in bytes. The provider is the name
// of its adapter.
func Tokens(provider string, head []byte, size int) int {
	if rest, ok := bytes.CutPrefix(head, []byte("data:")); ok {
		i := bytes.Index(rest, []byte(";base64,"))
		if i < 0 {
			return Unknown
		}
		size -= len(head)
		head = rest[i+len(";base64,"):]
		size += len(head)
	}
	head = bytes.ReplaceAll(head, []byte(`\/`), []byte("/")) // which JSON may escape
	data := make([]byte, base64.StdEncoding.DecodedLen(len(head)))
	n, _ := base64.StdEncoding.Decode(data, head[:len(head)/4*4])
	data = data[:n]
	if width, height, ok := imageSize(data); ok {
		return imageTokens(provider, width, height)
	}
	if seconds, ok := waveSeconds(data, size/4*3); ok && provider == "gemini" {
		return max(seconds*32, 1) // https://ai.google.dev/gemini-api/docs/tokens, as others quoted it on 2026-11-22
	}
	return Unknown
}

// imageTokens returns the tokens of an image of a size in pixels.
func imageTokens(provider string, width, height int) int {
	switch provider {
	case "openai":
		return openAITokens(width, height)
	case "anthropic":
		return anthropicTokens(width, height)
	case "gemini":
		return geminiTokens(width, height)
	}
	return Unknown
}

// openAITokens is the rule of https://platform.openai.com/docs/guides/images-vision for high
// detail: an image is scaled to fit 2048 squared and then to a shorter side of 768, and counts 170
// for each tile of 512 squared and 85 more, as others quoted it on 2026-11-22.
func openAITokens(width, height int) int {
	w, h := shrink(width, height, max(width, height), 2048)
	w, h = shrink(w, h, min(w, h), 768)
	return 85 + 170*tiles(w, 512)*tiles(h, 512)
}

// anthropicTokens is the rule of https://platform.claude.com/docs/en/build-with-claude/vision: an
// image is scaled to a longer side of 1568, and counts a 750th of its pixels, as others quoted it on 2026-11-22.
func anthropicTokens(width, height int) int {
	w, h := shrink(width, height, max(width, height), 1568)
	return max((w*h+749)/750, 1)
}

// geminiTokens is the rule of https://ai.google.dev/gemini-api/docs/image-understanding: 258 if
// both sides are at most 384, else 258 for each tile, whose side is the shorter one by 1.5. It
// is as others quoted it on 2026-11-22.
func geminiTokens(width, height int) int {
	if max(width, height) <= 384 {
		return 258
	}
	unit := min(max(min(width, height)*2/3, 256), 768)
	return 258 * tiles(width, unit) * tiles(height, unit)
}

// shrink scales a size down so that one of its sides is at most so long.
func shrink(width, height, side, most int) (w, h int) {
	if side <= most {
		return width, height
	}
	return max(width*most/side, 1), max(height*most/side, 1)
}

func tiles(side, tile int) int { return (side + tile - 1) / tile }

// imageSize returns the size in pixels of a PNG, GIF, WebP or JPEG, from its first bytes.
func imageSize(data []byte) (width, height int, ok bool) {
	switch {
	case len(data) >= 24 && string(data[:8]) == "\x89PNG\r\n\x1a\n":
		width, height = int(binary.BigEndian.Uint32(data[16:])), int(binary.BigEndian.Uint32(data[20:]))
	case len(data) >= 10 && (string(data[:6]) == "GIF87a" || string(data[:6]) == "GIF89a"):
		width, height = int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:]))
	case len(data) >= 30 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		width, height = webPSize(data)
	case len(data) >= 2 && data[0] == 0xff && data[1] == 0xd8:
		width, height = jpegSize(data)
	}
	return width, height, 0 < width && width <= maxSide && 0 < height && height <= maxSide
}

func webPSize(data []byte) (width, height int) {
	switch string(data[12:16]) {
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(data[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(data[28:]) & 0x3fff)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(data[21:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X":
		return 1 + int(data[24]) | int(data[25])<<8 | int(data[26])<<16, 1 + int(data[27]) | int(data[28])<<8 | int(data[29])<<16
	}
	return 0, 0
}

// jpegSize looks for the frame header, which may stand behind a preview that is longer than the
// head.
func jpegSize(data []byte) (width, height int) {
	for at := 2; at+9 <= len(data) && data[at] == 0xff; {
		marker := data[at+1]
		if 0xc0 <= marker && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc {
			return int(binary.BigEndian.Uint16(data[at+7:])), int(binary.BigEndian.Uint16(data[at+5:]))
		}
		at += 2 + int(binary.BigEndian.Uint16(data[at+2:]))
	}
	return 0, 0
}

// waveSeconds returns the length of a WAV file of a size in bytes.
func waveSeconds(data []byte, size int) (seconds int, ok bool) {
	if len(data) < 32 || string(data[:4]) != "RIFF" || string(data[8:16]) != "WAVEfmt " {
		return 0, false
	}
	perSecond := int64(binary.LittleEndian.Uint32(data[28:]))
	if perSecond < 1000 {
		return 0, false
	}
	return int((int64(size) + perSecond/2) / perSecond), true
}
