"""rushlight.audio: sound files, and what a network hears in them.

Features are torchaudio's, computed by operations of the library; torchaudio is not needed. Where it is installed, its
own transforms run on rushlight.
"""
import rushlight as torch

__all__ = ["load", "save", "decode", "encode", "spectrogram", "mel_spectrogram", "mfcc", "melscale_fbanks", "create_dct",
           "amplitude_to_DB"]
_ops = torch.ops.aten


def decode(data):
    """(samples (channels, frames) from -1 to 1, frames per second) in the bytes of a WAV or FLAC file."""
    if not isinstance(data, torch.Tensor):
        data = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    samples, rate = torch.ops.sound.decode(data)
    return samples, int(rate)


def load(path):
    """(samples, frames per second) of a WAV or FLAC file."""
    return decode(torch.ops.image.read_file(str(path)))


def encode(samples, sample_rate, format="wav"):
    """The bytes of a WAV or FLAC file, as a uint8 tensor."""
    return torch.ops.sound.encode(samples, sample_rate, format)


def save(path, samples, sample_rate, format=None):
    torch.ops.image.write_file(str(path), encode(samples, sample_rate, format or str(path).rsplit(".", 1)[-1].lower()))


def spectrogram(waveform, n_fft=400, win_length=None, hop_length=None, power=2.0, center=True):
    """|stft| ** power under a Hann window; power None: the complex numbers."""
    return _ops.audio_spectrogram(waveform, n_fft, win_length, hop_length, 0.0 if power is None else power, center)


def mel_spectrogram(waveform, sample_rate=16000, n_fft=400, win_length=None, hop_length=None, f_min=0.0, f_max=None, n_mels=128,
                    power=2.0, norm=None, mel_scale="htk"):
    return _ops.audio_mel_spectrogram(waveform, sample_rate, n_fft, win_length, hop_length, f_min, f_max, n_mels, power, norm, mel_scale)


def mfcc(waveform, sample_rate=16000, n_mfcc=40, log_mels=False, n_fft=400, win_length=None, hop_length=None, f_min=0.0, f_max=None,
         n_mels=128):
    return _ops.audio_mfcc(waveform, sample_rate, n_fft, win_length, hop_length, f_min, f_max, n_mels, n_mfcc, log_mels)


def melscale_fbanks(n_freqs, f_min, f_max, n_mels, sample_rate, norm=None, mel_scale="htk"):
    return _ops.audio_mel_filters(n_freqs, f_min, f_max, n_mels, sample_rate, norm, mel_scale)


def create_dct(n_mfcc, n_mels, norm=None):
    return _ops.audio_create_dct(n_mfcc, n_mels, norm)


def amplitude_to_DB(x, multiplier, amin, db_multiplier, top_db=None):
    return _ops.audio_amplitude_to_db(x, multiplier, amin, 10.0 ** db_multiplier, top_db)
