/*
** The SQL math functions report errors that the C library has stored in errno. The one used here stores none, so this header
** does, as on libsql-server: its sin, cos and tan of an infinity are NaN without an error. It also supplies glibc's error
** messages. Include it before the SQL functions.
*/
#include <errno.h>
#include <math.h>
#include <string.h>

/* Linux's error numbers: the SQL functions also use them as the length of the message. */
#define DOMAIN_ERROR 33
#define RANGE_ERROR 34

static double checkedUnary(double argument, double result, int underflows){
  if( isnan(result) ){
    if( !isnan(argument) ) errno = DOMAIN_ERROR;
  }else if( isfinite(argument) && (isinf(result) || (underflows && result == 0)) ) errno = RANGE_ERROR;
  return result;
}

static double checkedPower(double base, double exponent){
  double result = pow(base, exponent);
  int isFinite = isfinite(base) && isfinite(exponent);
  if( isnan(result) ){
    if( !isnan(base) && !isnan(exponent) ) errno = DOMAIN_ERROR;
  }else if( isFinite && (isinf(result) || (result == 0 && base != 0)) ) errno = RANGE_ERROR;
  return result;
}

/* floor and ceil are converted to a 64-bit integer, which on x86 is the smallest one if the number is too large. */
static double asOnX86(double integer){ return integer >= 9223372036854775808.0 ? -9223372036854775808.0 : integer; }

static double checkedSqrt(double x){ return checkedUnary(x, sqrt(x), 0); }
static double checkedAcos(double x){ return checkedUnary(x, acos(x), 0); }
static double checkedAsin(double x){ return checkedUnary(x, asin(x), 0); }
static double checkedAcosh(double x){ return checkedUnary(x, acosh(x), 0); }
static double checkedAtanh(double x){ return checkedUnary(x, atanh(x), 0); }
static double checkedSinh(double x){ return checkedUnary(x, sinh(x), 0); }
static double checkedCosh(double x){ return checkedUnary(x, cosh(x), 0); }
static double checkedLog(double x){ return checkedUnary(x, log(x), 0); }
static double checkedLog10(double x){ return checkedUnary(x, log10(x), 0); }
static double checkedExp(double x){ return checkedUnary(x, exp(x), 1); }
static double floorAsOnX86(double x){ return asOnX86(floor(x)); }
static double ceilAsOnX86(double x){ return asOnX86(ceil(x)); }

static const char *errorText(int number){
  return number == DOMAIN_ERROR ? "Numerical argument out of domain"
      : number == RANGE_ERROR ? "Numerical result out of range\0\0\0\0\0" : strerror(number);
}

#define sqrt checkedSqrt
#define acos checkedAcos
#define asin checkedAsin
#define acosh checkedAcosh
#define atanh checkedAtanh
#define sinh checkedSinh
#define cosh checkedCosh
#define log checkedLog
#define log10 checkedLog10
#define exp checkedExp
#define pow checkedPower
#define floor floorAsOnX86
#define ceil ceilAsOnX86
#define strerror errorText
